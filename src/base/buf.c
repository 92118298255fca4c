#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

uint8_t *buf_reserve(struct buf *buf, size_t size)
{
    if (buf->start == buf->end)
        buf->start = buf->end = 0;
    if (buf->capacity - buf->end >= size)
        return buf->bytes + buf->end;

    size_t length = buf_length(buf);
    if (buf->capacity - length >= size) {
        memmove(buf->bytes, buf->bytes + buf->start, length);
    } else {
        size_t wanted = length + size;
        size_t capacity = buf->capacity ? buf->capacity : 256;
        while (capacity < wanted)
            capacity *= 2;
        uint8_t *bytes = xmalloc(capacity);
        if (length)
            memcpy(bytes, buf->bytes + buf->start, length);
        free(buf->bytes);
        buf->bytes = bytes;
        buf->capacity = capacity;
    }
    buf->start = 0;
    buf->end = length;
    return buf->bytes + buf->end;
}

void buf_commit(struct buf *buf, size_t size)
{
    buf->end += size;
}

void buf_append(struct buf *buf, const void *bytes, size_t size)
{
    if (size == 0)
        return;
    memcpy(buf_reserve(buf, size), bytes, size);
    buf->end += size;
}

void buf_append_text(struct buf *buf, const char *text)
{
    buf_append(buf, text, strlen(text));
}

/* By hand: a machine that was just copied has yet to translate printf. */
void buf_append_hex(struct buf *buf, const void *bytes, size_t count)
{
    static const char digits[] = "0123456789abcdef";
    const uint8_t *from = bytes;
    uint8_t *at = buf_reserve(buf, 2 * count);
    for (size_t i = 0; i < count; i++) {
        at[2 * i] = (uint8_t)digits[from[i] >> 4];
        at[2 * i + 1] = (uint8_t)digits[from[i] & 15];
    }
    buf_commit(buf, 2 * count);
}

void buf_printf(struct buf *buf, const char *format, ...)
{
    size_t room = 128; /* for most; what is longer is made twice */
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int length = vsnprintf((char *)buf_reserve(buf, room), room, format, args);
    va_end(args);
    if (length >= (int)room) {
        room = (size_t)length + 1;
        vsnprintf((char *)buf_reserve(buf, room), room, format, again);
    }
    va_end(again);
    if (length > 0)
        buf->end += (size_t)length;
}

void buf_consume(struct buf *buf, size_t size)
{
    buf->start += size;
    if (buf->start == buf->end)
        buf->start = buf->end = 0;
}

const char *buf_text(struct buf *buf)
{
    *buf_reserve(buf, 1) = '\0';
    return (const char *)buf_data(buf);
}

void buf_free(struct buf *buf)
{
    free(buf->bytes);
    *buf = (struct buf){0};
}
