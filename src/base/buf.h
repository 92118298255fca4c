/* A growable run of bytes with a read position: append at the end, consume from the front. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct buf {
    uint8_t *bytes;
    size_t start; /* first byte not yet consumed */
    size_t end;   /* one past the last byte */
    size_t capacity;
};

static inline size_t buf_length(const struct buf *buf)
{
    return buf->end - buf->start;
}

static inline uint8_t *buf_data(const struct buf *buf)
{
    return buf->bytes ? buf->bytes + buf->start : NULL;
}

/* Room for at least `size` more bytes at the end; returns where they go. */
uint8_t *buf_reserve(struct buf *buf, size_t size);
/* Counts bytes that were written into reserved room. */
void buf_commit(struct buf *buf, size_t size);
void buf_append(struct buf *buf, const void *bytes, size_t size);
void buf_append_text(struct buf *buf, const char *text);
/* Two digits for each byte. */
void buf_append_hex(struct buf *buf, const void *bytes, size_t count);
void buf_printf(struct buf *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));
void buf_consume(struct buf *buf, size_t size);
/* The contents as a string; the buffer keeps ownership. */
const char *buf_text(struct buf *buf);
void buf_free(struct buf *buf);

#define cleanup_buf __attribute__((cleanup(buf_free)))
