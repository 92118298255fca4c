#include "server/lines.h"

#include <string.h>

#include "base/json_text.h"
#include "base/utf8.h"

static void add_line(struct lines *lines, enum channel channel, const uint8_t *text, size_t length)
{
    cleanup_buf struct buf valid = {0};
    if (utf8_append_valid(&valid, text, length) > 0)
        lines->invalid = true;
    buf_printf(&lines->json, "%s{\"stream\":\"%s\",\"text\":", buf_length(&lines->json) ? "," : "",
               channel == CHANNEL_STDERR ? "stderr" : "stdout");
    json_text_append(&lines->json, buf_data(&valid), buf_length(&valid));
    buf_append(&lines->json, "}", 1);
}

void lines_take(struct lines *lines, enum channel channel, const void *bytes, size_t length)
{
    struct buf *unfinished = &lines->unfinished[channel];
    const uint8_t *at = bytes, *end = at + length, *newline;
    while (at < end && (newline = memchr(at, '\n', (size_t)(end - at)))) {
        buf_append(unfinished, at, (size_t)(newline - at));
        add_line(lines, channel, buf_data(unfinished), buf_length(unfinished));
        buf_consume(unfinished, buf_length(unfinished));
        at = newline + 1;
    }
    buf_append(unfinished, at, (size_t)(end - at));
}

void lines_finish(struct lines *lines)
{
    for (enum channel channel = CHANNEL_STDOUT; channel <= CHANNEL_STDERR; channel++) {
        struct buf *unfinished = &lines->unfinished[channel];
        if (buf_length(unfinished) > 0)
            add_line(lines, channel, buf_data(unfinished), buf_length(unfinished));
        buf_consume(unfinished, buf_length(unfinished));
    }
}

void lines_free(struct lines *lines)
{
    buf_free(&lines->json);
    for (int i = 0; i < CHANNEL_COUNT; i++)
        buf_free(&lines->unfinished[i]);
}
