#include "sandbox/writer.h"

void writer_init(struct writer *writer, uv_stream_t *stream,
                 void (*written)(struct writer *writer, size_t length, int status), void *owner)
{
    *writer = (struct writer){.stream = stream, .written = written, .owner = owner};
    writer->request.data = writer;
}

static void throw_away(struct writer *writer, int status)
{
    buf_consume(&writer->writing, buf_length(&writer->writing));
    buf_consume(&writer->out, buf_length(&writer->out));
    writer->written(writer, 0, status);
}

static void on_written(uv_write_t *request, int status)
{
    struct writer *writer = request->data;
    size_t length = buf_length(&writer->writing);
    writer->is_writing = false;
    if (uv_is_closing((uv_handle_t *)writer->stream))
        return;
    if (status < 0) {
        throw_away(writer, status);
        return;
    }
    buf_consume(&writer->writing, length);
    writer->written(writer, length, 0);
    writer_flush(writer);
}

static void write_later(struct writer *writer)
{
    struct buf empty = writer->writing;
    writer->writing = writer->out;
    writer->out = empty;
    uv_buf_t piece =
        uv_buf_init((char *)buf_data(&writer->writing), (unsigned)buf_length(&writer->writing));
    int result = uv_write(&writer->request, writer->stream, &piece, 1, on_written);
    writer->is_writing = result == 0;
    if (result < 0)
        throw_away(writer, result);
}

void writer_flush(struct writer *writer)
{
    if (writer->is_writing || buf_length(&writer->out) == 0 ||
        uv_is_closing((uv_handle_t *)writer->stream))
        return;
    uv_buf_t piece =
        uv_buf_init((char *)buf_data(&writer->out), (unsigned)buf_length(&writer->out));
    int put = uv_try_write(writer->stream, &piece, 1);
    if (put > 0) {
        buf_consume(&writer->out, (size_t)put);
        writer->written(writer, (size_t)put, 0);
    }
    if (buf_length(&writer->out) > 0 && !uv_is_closing((uv_handle_t *)writer->stream))
        write_later(writer);
}

bool writer_is_empty(const struct writer *writer)
{
    return !writer->is_writing && buf_length(&writer->out) == 0;
}

void writer_free(struct writer *writer)
{
    buf_free(&writer->out);
    buf_free(&writer->writing);
}
