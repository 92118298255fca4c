#include "engine/agent_call.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/wait.h"
#include "proto/fields.h"
#include "proto/frame.h"
#include "proto/outcome.h"
#include "proto/protocol.h"

/* Streams of later users are numbered from 1; this one cannot meet them. */
#define CALL_STREAM 0x7fffffffu

static int read_some(int fd, struct buf *in, uint64_t deadline, struct error *err)
{
    for (;;) {
        int ready = wait_readable(&fd, 1, deadline, "the agent", err);
        if (ready < 0)
            return ready;
        ssize_t got = recv(fd, buf_reserve(in, 4096), 4096, 0);
        if (got > 0) {
            buf_commit(in, (size_t)got);
            return 0;
        }
        if (got == 0 || (errno != EINTR && errno != EAGAIN))
            return error_set(err, ERROR_UNAVAILABLE, "the machine ended");
    }
}

/* The next frame of that type and stream, which stays in `in`; others are dropped. Returns its
 * size. */
static int await_frame(int fd, struct buf *in, enum frame_type type, uint32_t stream,
                       int timeout_ms, struct frame *frame, struct error *err)
{
    uint64_t deadline = clock_monotonic_ms() + (uint64_t)timeout_ms;
    for (;;) {
        int size = frame_decode(in, frame, err);
        if (size < 0)
            return size;
        if (size > 0) {
            if (frame->type == type && frame->stream == stream)
                return size;
            buf_consume(in, (size_t)size);
            continue;
        }
        int result = read_some(fd, in, deadline, err);
        if (result < 0)
            return result;
    }
}

static int read_greeting(const struct frame *frame, char *kernel, size_t kernel_size,
                         struct error *err)
{
    uint64_t version = 0;
    uint32_t at = 0;
    struct field field;
    int more;
    while ((more = fields_next(frame->payload, frame->length, &at, &field, err)) > 0) {
        if (field.tag == TAG_VERSION && field_number(&field, &version, err) < 0)
            return -1;
        if (field.tag == TAG_KERNEL)
            snprintf(kernel, kernel_size, "%.*s", (int)field.length, (const char *)field.bytes);
    }
    if (more < 0)
        return more;
    if (version != PROTOCOL_VERSION)
        return error_set(err, ERROR_PROTOCOL, "the agent speaks version %u, we speak %u",
                         (unsigned)version, PROTOCOL_VERSION);
    return 0;
}

int agent_greeting(int fd, int timeout_ms, char *kernel, size_t kernel_size, struct error *err)
{
    cleanup_buf struct buf in = {0};
    struct frame frame;
    int result = await_frame(fd, &in, FRAME_HELLO, 0, timeout_ms, &frame, err);
    return result < 0 ? result : read_greeting(&frame, kernel, kernel_size, err);
}

int agent_call(int fd, uint8_t operation, const struct buf *fields, int timeout_ms,
               struct error *err)
{
    int result = agent_call_begin(fd, operation, fields, NULL, err);
    return result < 0 ? result : agent_call_end(fd, timeout_ms, NULL, err);
}

static int send_all(int fd, const struct buf *out, struct error *err)
{
    if (send(fd, buf_data(out), buf_length(out), MSG_NOSIGNAL) != (ssize_t)buf_length(out))
        return error_set(err, ERROR_UNAVAILABLE, "the machine takes no requests");
    return 0;
}

int agent_call_begin(int fd, uint8_t operation, const struct buf *fields, const char *input,
                     struct error *err)
{
    cleanup_buf struct buf out = {0};
    frame_append(&out, CALL_STREAM, FRAME_OPEN, operation, buf_data(fields), buf_length(fields));
    if (input) {
        frame_append(&out, CALL_STREAM, FRAME_DATA, CHANNEL_STDIN, input, strlen(input));
        frame_append(&out, CALL_STREAM, FRAME_EOF, CHANNEL_STDIN, NULL, 0);
    }
    return send_all(fd, &out, err);
}

int agent_call_nudge(int fd, struct error *err)
{
    cleanup_buf struct buf out = {0};
    frame_append_credit(&out, CALL_STREAM, 1);
    return send_all(fd, &out, err);
}

int agent_call_end(int fd, int timeout_ms, struct buf *rest, struct error *err)
{
    cleanup_buf struct buf in = {0};
    struct frame frame;
    int size = await_frame(fd, &in, FRAME_END, CALL_STREAM, timeout_ms, &frame, err);
    if (size < 0)
        return size;
    struct outcome outcome;
    int result = outcome_read(&frame, &outcome, err);
    if (result == 0 && outcome.error.code != ERROR_NONE) {
        *err = outcome.error;
        result = -1;
    }
    outcome_free(&outcome);
    buf_consume(&in, (size_t)size);
    if (rest)
        buf_append(rest, buf_data(&in), buf_length(&in));
    return result;
}
