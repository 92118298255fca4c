#include "base/cancel.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

static int event_fd = -1;
static volatile sig_atomic_t caught_signal;

static void on_signal(int number)
{
    int saved = errno;
    uint64_t one = 1;
    caught_signal = number;
    ssize_t ignored = write(event_fd, &one, sizeof one);
    (void)ignored;
    errno = saved;
}

void cancel_install(void)
{
    if (event_fd >= 0)
        return;
    event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct sigaction action = {.sa_handler = on_signal};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
}

int cancel_fd(void)
{
    return event_fd;
}

bool cancel_requested(void)
{
    return caught_signal != 0;
}

int cancel_error(struct error *err)
{
    return error_set(err, ERROR_CANCELLED, "interrupted");
}

int cancel_signal(void)
{
    return caught_signal;
}
