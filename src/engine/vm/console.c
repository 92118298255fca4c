#include "engine/vm/console.h"

#include <string.h>

#include "base/mem.h"

#define CRASH_MAX 500

/* One line without the time in front of it and without control characters: a guest's root can
 * write anything to its console. */
static char *clean(const char *line, size_t length)
{
    const char *end = line + length;
    const char *bracket = length && *line == '[' ? memchr(line, ']', length) : NULL;
    line = bracket ? bracket + 1 : line;
    while (line < end && *line == ' ')
        line++;
    while (end > line && (unsigned char)end[-1] <= ' ')
        end--;
    char *text = xstrndup(line, (size_t)(end - line));
    for (char *at = text; *at; at++) {
        if ((unsigned char)*at < ' ' || (unsigned char)*at >= 0x7f)
            *at = '?';
    }
    return text;
}

/* Where a program stood ("RIP: 0033:") does not matter. */
static bool tells_of_crash(const char *line)
{
    static const char *const beginnings[] = {"BUG: ",         "kernel BUG at", "Oops: ",
                                             "RIP: 0010",     "Kernel panic",  "general protection",
                                             "stack segment", "divide error",  "invalid opcode"};
    for (size_t i = 0; i < sizeof beginnings / sizeof *beginnings; i++) {
        if (strncmp(line, beginnings[i], strlen(beginnings[i])) == 0)
            return true;
    }
    return false;
}

char *console_crash(struct buf *said)
{
    cleanup_buf struct buf told = {0};
    bool crashed = false;
    const char *at = buf_text(said);
    for (const char *next; *at; at = next) {
        size_t length = strcspn(at, "\n");
        next = at + length + (at[length] == '\n');
        cleanup_free char *line = clean(at, length);
        if (!tells_of_crash(line) || buf_length(&told) + strlen(line) > CRASH_MAX ||
            strstr(buf_text(&told), line))
            continue;
        crashed = true;
        buf_printf(&told, "%s%s", buf_length(&told) ? "; " : "", line);
    }
    return crashed ? xstrdup(buf_text(&told)) : NULL;
}

char *console_last_line(struct buf *said)
{
    const char *text = buf_text(said);
    size_t end = strlen(text);
    while (end && (unsigned char)text[end - 1] <= ' ')
        end--;
    size_t begin = end;
    while (begin && text[begin - 1] != '\n')
        begin--;
    return clean(text + begin, end - begin);
}
