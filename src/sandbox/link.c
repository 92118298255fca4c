#include "sandbox/link.h"

#include <unistd.h>

#include "base/mem.h"

#define READ_SIZE (128u * 1024)
/* So much does not wait for more. */
#define TOGETHER_MAX (64u * 1024)

static void on_closed(uv_handle_t *handle)
{
    struct link *link = handle->data;
    buf_free(&link->in);
    buf_free(&link->held);
    writer_free(&link->writer);
    if (link->handlers->closed)
        link->handlers->closed(link);
}

static void on_pipe_closed(uv_handle_t *handle)
{
    struct link *link = handle->data;
    uv_close((uv_handle_t *)&link->before_waiting, on_closed);
}

void link_close(struct link *link)
{
    if (link->is_closing)
        return;
    link->is_closing = true;
    writer_flush(&link->writer);
    uv_close((uv_handle_t *)&link->pipe, on_pipe_closed);
}

void link_finish(struct link *link)
{
    link->close_when_written = true;
    if (writer_is_empty(&link->writer))
        link_close(link);
}

static void lose(struct link *link, const struct error *reason)
{
    if (link->is_closing)
        return;
    uv_read_stop((uv_stream_t *)&link->pipe);
    link->handlers->lost(link, reason);
}

static void take_frames(struct link *link)
{
    struct error err;
    struct frame frame;
    int size;
    while (!link->is_closing && (size = frame_decode(&link->in, &frame, &err)) != 0) {
        if (size < 0) {
            lose(link, &err);
            return;
        }
        link->handlers->frame(link, &frame);
        if (link->in.bytes)
            buf_consume(&link->in, (size_t)size);
    }
}

static void on_room(uv_handle_t *handle, size_t suggested, uv_buf_t *room)
{
    (void)suggested;
    struct link *link = handle->data;
    room->base = (char *)buf_reserve(&link->in, READ_SIZE);
    room->len = READ_SIZE;
}

static void on_bytes(uv_stream_t *stream, ssize_t got, const uv_buf_t *room)
{
    (void)room;
    struct link *link = stream->data;
    if (got > 0) {
        buf_commit(&link->in, (size_t)got);
        link->received += (uint64_t)got;
        take_frames(link);
    } else if (got < 0) {
        struct error reason = {.code = ERROR_NONE};
        if (got != UV_EOF && got != UV_ECONNRESET)
            error_set(&reason, ERROR_IO, "cannot read: %s", uv_strerror((int)got));
        lose(link, &reason);
    }
}

/* Whether the other side left is told by reading: what it said last may still be unread. */
static void on_written(struct writer *writer, size_t length, int status)
{
    (void)length, (void)status;
    struct link *link = writer->owner;
    if (link->close_when_written && writer_is_empty(writer))
        link_close(link);
}

static void before_waiting(uv_prepare_t *handle)
{
    struct link *link = handle->data;
    uv_prepare_stop(handle);
    writer_flush(&link->writer);
}

/* Frames that are sent while the loop deals with one event leave as one write: the other side, a
 * machine above all, is woken once for all of them. */
static void write_soon(struct link *link)
{
    if (buf_length(&link->writer.out) >= TOGETHER_MAX)
        writer_flush(&link->writer);
    else
        uv_prepare_start(&link->before_waiting, before_waiting);
}

int link_open(struct link *link, uv_loop_t *loop, int fd, const struct link_handlers *handlers,
              void *owner, struct error *err)
{
    *link = (struct link){.handlers = handlers, .owner = owner};
    uv_pipe_init(loop, &link->pipe, 0);
    uv_prepare_init(loop, &link->before_waiting);
    link->pipe.data = link->before_waiting.data = link;
    writer_init(&link->writer, (uv_stream_t *)&link->pipe, on_written, link);
    int result = uv_pipe_open(&link->pipe, fd);
    if (result == 0)
        result = uv_read_start((uv_stream_t *)&link->pipe, on_room, on_bytes);
    if (result == 0)
        return 0;
    return error_set(err, ERROR_IO, "cannot use a connection: %s", uv_strerror(result));
}

static struct buf *outgoing(struct link *link)
{
    return link->is_held ? &link->held : &link->writer.out;
}

void link_hold(struct link *link)
{
    link->is_held = true;
}

void link_release(struct link *link)
{
    cleanup_buf struct buf held = link->held;
    link->held = (struct buf){0};
    link->is_held = false;
    link_send_raw(link, &held);
}

void link_send(struct link *link, uint32_t stream, enum frame_type type, uint8_t detail,
               const void *payload, size_t length)
{
    if (link->is_closing)
        return;
    frame_append(outgoing(link), stream, type, detail, payload, length);
    write_soon(link);
}

void link_send_raw(struct link *link, const struct buf *frames)
{
    if (link->is_closing)
        return;
    buf_append(outgoing(link), buf_data(frames), buf_length(frames));
    write_soon(link);
}

void link_send_credit(struct link *link, uint32_t stream, uint32_t amount)
{
    if (link->is_closing)
        return;
    frame_append_credit(outgoing(link), stream, amount);
    write_soon(link);
}

void link_flush(struct link *link)
{
    writer_flush(&link->writer);
}

void link_preload(struct link *link, const struct buf *bytes)
{
    buf_append(&link->in, buf_data(bytes), buf_length(bytes));
    take_frames(link);
}
