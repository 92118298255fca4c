#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static enum log_level highest = LOG_LEVEL_WARN;
static char speaker_name[96] = "msb";
static void (*line_sink)(enum log_level level, const char *text);

void log_set_level(enum log_level level)
{
    highest = level;
}

void log_set_speaker(const char *speaker)
{
    snprintf(speaker_name, sizeof speaker_name, "%s", speaker);
}

void log_set_sink(void (*sink)(enum log_level level, const char *text))
{
    line_sink = sink;
}

const char *log_level_name(enum log_level level)
{
    static const char *const names[] = {"error", "warn", "info", "debug"};
    return names[level];
}

/* One write per line, so that lines of several processes do not mix. */
void log_line(enum log_level level, const char *format, ...)
{
    if (level > highest)
        return;
    char line[1024];
    int used = line_sink
                   ? 0
                   : snprintf(line, sizeof line, "%s: %s: ", speaker_name, log_level_name(level));
    va_list args;
    va_start(args, format);
    vsnprintf(line + used, sizeof line - (size_t)used - 1, format, args);
    va_end(args);
    if (line_sink) {
        line_sink(level, line);
        return;
    }
    size_t length = strlen(line);
    line[length++] = '\n';
    ssize_t ignored = write(STDERR_FILENO, line, length);
    (void)ignored;
}
