#include "base/cancel.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

static int wait_fd = -1; /* an epoll of the two below */
static int event_fd = -1;
static int peer_fd = -1;
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
    if (wait_fd >= 0)
        return;
    wait_fd = epoll_create1(EPOLL_CLOEXEC);
    event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    epoll_ctl(wait_fd, EPOLL_CTL_ADD, event_fd, &(struct epoll_event){.events = EPOLLIN});
    struct sigaction action = {.sa_handler = on_signal};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
}

void cancel_forget(void)
{
    wait_fd = event_fd = peer_fd = -1;
    caught_signal = 0;
}

void cancel_with_peer(int socket)
{
    if (peer_fd >= 0)
        epoll_ctl(wait_fd, EPOLL_CTL_DEL, peer_fd, NULL);
    peer_fd = socket;
    if (peer_fd >= 0)
        epoll_ctl(wait_fd, EPOLL_CTL_ADD, peer_fd, &(struct epoll_event){.events = EPOLLRDHUP});
}

int cancel_fd(void)
{
    return wait_fd;
}

bool cancel_requested(void)
{
    struct epoll_event event;
    return caught_signal != 0 || (peer_fd >= 0 && epoll_wait(wait_fd, &event, 1, 0) > 0);
}

int cancel_error(struct error *err)
{
    return error_set(err, ERROR_CANCELLED, "interrupted");
}

int cancel_signal(void)
{
    return caught_signal;
}
