#include "base/utf8.h"

/* The second byte rules out overlong forms, surrogates and what is above U+10FFFF. */
size_t utf8_sequence(const uint8_t *at, size_t left)
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

size_t utf8_unfinished(const uint8_t *bytes, size_t length)
{
    for (size_t back = 1; back <= 3 && back <= length; back++) {
        uint8_t byte = bytes[length - back];
        if ((byte & 0xc0) == 0x80)
            continue;
        size_t wanted = byte > 0xf4    ? 1
                        : byte >= 0xf0 ? 4
                        : byte >= 0xe0 ? 3
                        : byte >= 0xc2 ? 2
                                       : 1;
        return wanted > back ? back : 0;
    }
    return 0;
}

size_t utf8_append_valid(struct buf *out, const uint8_t *bytes, size_t length)
{
    size_t wrong = 0;
    for (size_t at = 0, plain = 0;; at++) {
        size_t size = at < length ? utf8_sequence(bytes + at, length - at) : 0;
        if (size > 0) {
            at += size - 1;
            continue;
        }
        buf_append(out, bytes + plain, at - plain);
        if (at >= length)
            return wrong;
        buf_append_text(out, UTF8_REPLACEMENT);
        plain = at + 1;
        wrong++;
    }
}
