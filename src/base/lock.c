#include "base/lock.h"

#include <poll.h>
#include <stdbool.h>

#include "base/cancel.h"
#include "base/file.h"
#include "base/progress.h"

#define TICK_MS 200

/*
 * A blocking flock would miss a signal that comes just before it, and could not renew the
 * progress line; so the lock is tried at each tick of the progress.
 */
static int wait_ticks(const char *path, struct error *err)
{
    for (;;) {
        struct pollfd cancel = {.fd = cancel_fd(), .events = POLLIN};
        poll(&cancel, 1, TICK_MS);
        if (cancel_requested())
            return cancel_error(err);
        int fd = file_lock(path, false, err);
        if (fd >= 0 || err->code != ERROR_BUSY)
            return fd;
        progress_tick();
    }
}

int lock_wait(const char *path, const char *work, struct error *err)
{
    int fd = file_lock(path, false, err);
    if (fd >= 0 || err->code != ERROR_BUSY)
        return fd;
    progress_begin("Waiting for another msb that %s", work);
    fd = wait_ticks(path, err);
    progress_end(fd >= 0);
    return fd;
}
