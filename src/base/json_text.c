#include "base/json_text.h"

#include <stdint.h>
#include <string.h>

#include "base/utf8.h"

static void append_character(struct buf *out, const uint8_t *at, size_t length)
{
    if (length == 0)
        buf_append_text(out, UTF8_REPLACEMENT);
    else if (*at == '"' || *at == '\\')
        buf_printf(out, "\\%c", *at);
    else if (*at < 0x20 || *at == 0x7f)
        buf_printf(out, "\\u%04x", *at);
    else
        buf_append(out, at, length);
}

void json_text_append(struct buf *out, const void *bytes, size_t length)
{
    const uint8_t *at = bytes;
    const uint8_t *end = at + length;
    buf_append_text(out, "\"");
    while (at < end) {
        size_t size = utf8_sequence(at, (size_t)(end - at));
        append_character(out, at, size);
        at += size ? size : 1;
    }
    buf_append_text(out, "\"");
}

void json_text_clean(char *text)
{
    size_t left = strlen(text);
    while (left > 0) {
        size_t size = utf8_sequence((const uint8_t *)text, left);
        if (size == 0 || (uint8_t)*text < 0x20 || *text == 0x7f)
            *text = '?';
        size = size ? size : 1;
        text += size;
        left -= size;
    }
}
