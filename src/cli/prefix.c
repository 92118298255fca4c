#include "cli/prefix.h"

#include <string.h>

#include "cli/style.h"

#define LINE_MAX_BYTES 65536

static void print_line(struct prefix *prefix)
{
    fprintf(prefix->to, "%s%-*s |%s ", style_begin(prefix->to, prefix->n), prefix->width,
            prefix->name, style_end(prefix->to));
    fwrite(buf_data(&prefix->line), 1, buf_length(&prefix->line), prefix->to);
    fputc('\n', prefix->to);
    buf_consume(&prefix->line, buf_length(&prefix->line));
}

void prefix_take(struct prefix *prefix, const void *bytes, size_t length)
{
    const char *at = bytes, *end = at + length;
    while (at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const char *stop = newline ? newline : end;
        buf_append(&prefix->line, at, (size_t)(stop - at));
        if (newline || buf_length(&prefix->line) >= LINE_MAX_BYTES)
            print_line(prefix);
        at = newline ? newline + 1 : end;
    }
    fflush(prefix->to);
}

void prefix_finish(struct prefix *prefix)
{
    if (buf_length(&prefix->line) > 0)
        print_line(prefix);
    buf_free(&prefix->line);
    fflush(prefix->to);
}
