#include "sandbox/link.h"

#include <unistd.h>

#include "base/mem.h"

#define READ_SIZE (128u * 1024)

static void on_closed(uv_handle_t *handle)
{
    struct link *link = handle->data;
    buf_free(&link->in);
    buf_free(&link->out);
    buf_free(&link->writing);
    if (link->handlers->closed)
        link->handlers->closed(link);
}

void link_close(struct link *link)
{
    if (link->is_closing)
        return;
    link->is_closing = true;
    uv_close((uv_handle_t *)&link->pipe, on_closed);
}

void link_finish(struct link *link)
{
    if (link->is_writing)
        link->close_when_written = true;
    else
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
        take_frames(link);
    } else if (got < 0) {
        struct error reason = {.code = ERROR_NONE};
        if (got != UV_EOF && got != UV_ECONNRESET)
            error_set(&reason, ERROR_IO, "cannot read: %s", uv_strerror((int)got));
        lose(link, &reason);
    }
}

int link_open(struct link *link, uv_loop_t *loop, int fd, const struct link_handlers *handlers,
              void *owner, struct error *err)
{
    *link = (struct link){.handlers = handlers, .owner = owner};
    uv_pipe_init(loop, &link->pipe, 0);
    link->pipe.data = link;
    int result = uv_pipe_open(&link->pipe, fd);
    if (result == 0)
        result = uv_read_start((uv_stream_t *)&link->pipe, on_room, on_bytes);
    if (result == 0)
        return 0;
    return error_set(err, ERROR_IO, "cannot use a connection: %s", uv_strerror(result));
}

static void flush(struct link *link);

static void on_written(uv_write_t *request, int status)
{
    struct link *link = request->data;
    link->is_writing = false;
    if (link->is_closing)
        return;
    buf_consume(&link->writing, buf_length(&link->writing));
    /* The other side left. What it said last may still be unread: reading tells when to give up. */
    if (status < 0)
        buf_consume(&link->out, buf_length(&link->out));
    flush(link);
    if (link->close_when_written && !link->is_writing)
        link_close(link);
}

static void flush(struct link *link)
{
    if (link->is_writing || buf_length(&link->out) == 0)
        return;
    uv_buf_t piece = uv_buf_init((char *)buf_data(&link->out), (unsigned)buf_length(&link->out));
    int put = uv_try_write((uv_stream_t *)&link->pipe, &piece, 1);
    if (put > 0)
        buf_consume(&link->out, (size_t)put);
    if (buf_length(&link->out) == 0)
        return;
    struct buf empty = link->writing;
    link->writing = link->out;
    link->out = empty;
    piece = uv_buf_init((char *)buf_data(&link->writing), (unsigned)buf_length(&link->writing));
    link->write.data = link;
    link->is_writing = true;
    if (uv_write(&link->write, (uv_stream_t *)&link->pipe, &piece, 1, on_written) < 0) {
        link->is_writing = false;
        buf_consume(&link->writing, buf_length(&link->writing));
    }
}

void link_send(struct link *link, uint32_t stream, enum frame_type type, uint8_t detail,
               const void *payload, size_t length)
{
    if (link->is_closing)
        return;
    frame_append(&link->out, stream, type, detail, payload, length);
    flush(link);
}

void link_send_raw(struct link *link, const struct buf *frames)
{
    if (link->is_closing)
        return;
    buf_append(&link->out, buf_data(frames), buf_length(frames));
    flush(link);
}

void link_send_credit(struct link *link, uint32_t stream, uint32_t amount)
{
    if (link->is_closing)
        return;
    frame_append_credit(&link->out, stream, amount);
    flush(link);
}

void link_preload(struct link *link, const struct buf *bytes)
{
    buf_append(&link->in, buf_data(bytes), buf_length(bytes));
    take_frames(link);
}
