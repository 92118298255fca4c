#include "base/wait.h"

#include <errno.h>
#include <poll.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/progress.h"

#define TICK_MS 200
#define FDS_MAX 3

static int first_ready(const struct pollfd *wait, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (wait[i].revents)
            return (int)i;
    }
    return -1;
}

int wait_readable(const int *fds, size_t count, uint64_t deadline, const char *who,
                  struct error *err)
{
    struct pollfd wait[FDS_MAX + 1] = {{.fd = cancel_fd(), .events = POLLIN}};
    for (size_t i = 0; i < count && i < FDS_MAX; i++)
        wait[i + 1] = (struct pollfd){.fd = fds[i], .events = POLLIN};
    for (;;) {
        uint64_t now = clock_monotonic_ms();
        if (now >= deadline)
            return error_set(err, ERROR_TIMEOUT, "%s did not answer in time", who);
        uint64_t left = deadline - now < TICK_MS ? deadline - now : TICK_MS;
        int ready = poll(wait, (nfds_t)count + 1, (int)left);
        if (cancel_requested())
            return cancel_error(err);
        if (ready < 0 && errno != EINTR)
            return error_errno(err, errno, "cannot wait for %s", who);
        if (ready > 0)
            return first_ready(wait + 1, count);
        progress_tick();
    }
}
