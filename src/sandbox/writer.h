/* Writes to a libuv stream what it is given, in order, with one write under way at a time. */
#pragma once

#include <stdbool.h>
#include <uv.h>

#include "base/buf.h"

struct writer {
    uv_stream_t *stream;
    uv_write_t request;
    struct buf out;     /* waits for the write under way */
    struct buf writing; /* being written */
    bool is_writing;
    /* So many bytes are gone, or (status negative) everything that waited was thrown away. Not
     * called once the stream is closing. */
    void (*written)(struct writer *writer, size_t length, int status);
    void *owner;
};

void writer_init(struct writer *writer, uv_stream_t *stream,
                 void (*written)(struct writer *writer, size_t length, int status), void *owner);
/* Writes what was put into `out`. */
void writer_flush(struct writer *writer);
bool writer_is_empty(const struct writer *writer);
/* When the stream is closed. */
void writer_free(struct writer *writer);
