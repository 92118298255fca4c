#include "base/json_text.h"

#include <stdint.h>
#include <string.h>

#define REPLACEMENT "\xef\xbf\xbd"

/*
 * The length of the well-formed UTF-8 sequence at the front, 0 if there is none: the second byte
 * rules out overlong forms, surrogates and what is above U+10FFFF.
 */
static size_t sequence_length(const uint8_t *at, size_t left)
{
    static const struct {
        uint8_t first, last, low, high;
        size_t length;
    } forms[] = {
        {0x00, 0x7f, 0x00, 0x00, 1}, {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
        {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
        {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4},
    };
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        if (at[0] < forms[i].first || at[0] > forms[i].last)
            continue;
        size_t length = forms[i].length;
        if (length > left || (length > 1 && (at[1] < forms[i].low || at[1] > forms[i].high)))
            return 0;
        for (size_t more = 2; more < length; more++) {
            if ((at[more] & 0xc0) != 0x80)
                return 0;
        }
        return length;
    }
    return 0;
}

static void append_character(struct buf *out, const uint8_t *at, size_t length)
{
    if (length == 0)
        buf_append_text(out, REPLACEMENT);
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
        size_t size = sequence_length(at, (size_t)(end - at));
        append_character(out, at, size);
        at += size ? size : 1;
    }
    buf_append_text(out, "\"");
}

void json_text_clean(char *text)
{
    size_t left = strlen(text);
    while (left > 0) {
        size_t size = sequence_length((const uint8_t *)text, left);
        if (size == 0 || (uint8_t)*text < 0x20 || *text == 0x7f)
            *text = '?';
        size = size ? size : 1;
        text += size;
        left -= size;
    }
}
