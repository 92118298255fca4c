#include "cli/query.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/mem.h"
#include "sandbox/launch.h"
#include "sandbox/state.h"

#define QUERY_STREAM 1
#define START_MS 900000

/* Returns the number of bytes read, 0 at the end. */
static int read_some(int fd, struct buf *in, uint64_t deadline, struct error *err)
{
    uint64_t now = clock_monotonic_ms();
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    if (now >= deadline || poll(&wait, 1, (int)(deadline - now)) == 0)
        return error_set(err, ERROR_TIMEOUT, "its keeper does not answer");
    ssize_t got = recv(fd, buf_reserve(in, 65536), 65536, 0);
    if (got < 0 && errno != ECONNRESET)
        return error_errno(err, errno, "cannot read from its keeper");
    if (got > 0)
        buf_commit(in, (size_t)got);
    return got > 0 ? (int)got : 0;
}

static int await_answer(int fd, struct buf *in, uint64_t deadline, struct outcome *outcome,
                        struct error *err)
{
    for (;;) {
        struct frame frame;
        int size = frame_decode(in, &frame, err);
        if (size < 0)
            return size;
        if (size > 0 && frame.type == FRAME_END && frame.stream == QUERY_STREAM)
            return outcome_read(&frame, outcome, err);
        if (size > 0) {
            buf_consume(in, (size_t)size);
            continue;
        }
        int got = read_some(fd, in, deadline, err);
        if (got < 0)
            return got;
        if (got == 0)
            return error_set(err, ERROR_UNAVAILABLE, "its keeper is gone");
    }
}

int query_started(int connection, struct outcome *outcome, struct error *err)
{
    _Static_assert(LAUNCH_STREAM == QUERY_STREAM, "both are the first on their connection");
    cleanup_buf struct buf in = {0};
    *outcome = (struct outcome){0};
    return await_answer(connection, &in, clock_monotonic_ms() + START_MS, outcome, err);
}

int query_keeper(const char *namespace, const char *name, enum operation operation, bool await_end,
                 int timeout_ms, struct outcome *outcome, struct error *err)
{
    *outcome = (struct outcome){0};
    uint64_t deadline = clock_monotonic_ms() + (uint64_t)timeout_ms;
    cleanup_fd int fd = state_connect(namespace, name, err);
    if (fd < 0)
        return fd;
    cleanup_buf struct buf in = {0}, out = {0};
    frame_append(&out, QUERY_STREAM, FRAME_OPEN, (uint8_t)operation, NULL, 0);
    if (send(fd, buf_data(&out), buf_length(&out), MSG_NOSIGNAL) < 0)
        return error_errno(err, errno, "cannot reach sandbox %s", name);
    int result = await_answer(fd, &in, deadline, outcome, err);
    while (result == 0 && await_end) {
        buf_consume(&in, buf_length(&in));
        int got = read_some(fd, &in, deadline, err);
        if (got <= 0)
            return got;
    }
    return result;
}
