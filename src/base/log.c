#include "base/log.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/json_text.h"

static enum log_level highest = LOG_LEVEL_WARN;
static enum log_format chosen = LOG_CONSOLE;
static char speaker_name[96] = "msb";
static void (*writer)(const void *line, size_t length);

static const char *const names[] = {"error", "warn", "info", "debug"};

void log_set_level(enum log_level level)
{
    highest = level;
}

bool log_takes(enum log_level level)
{
    return level <= highest;
}

void log_set_format(enum log_format format)
{
    chosen = format;
}

void log_set_speaker(const char *speaker)
{
    snprintf(speaker_name, sizeof speaker_name, "%s", speaker);
}

void log_set_writer(void (*write)(const void *line, size_t length))
{
    writer = write;
    if (!write)
        chosen = LOG_CONSOLE;
}

static void append_time(struct buf *line)
{
    uint64_t now = clock_realtime_us();
    time_t seconds = (time_t)(now / 1000000);
    struct tm parts;
    char text[32];
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", gmtime_r(&seconds, &parts));
    buf_printf(line, "%s.%06uZ", text, (unsigned)(now % 1000000));
}

static void append_quoted(struct buf *line, const char *text)
{
    json_text_append(line, text, strlen(text));
}

static void append_json(struct buf *line, enum log_level level, const char *sentence,
                        const struct log_field *fields, size_t count)
{
    buf_append_text(line, "{\"time\":\"");
    append_time(line);
    buf_printf(line, "\",\"level\":\"%s\",\"from\":", names[level]);
    append_quoted(line, speaker_name);
    buf_append_text(line, ",\"message\":");
    append_quoted(line, sentence);
    for (size_t i = 0; i < count; i++) {
        if (!fields[i].name)
            continue;
        buf_printf(line, ",\"%s\":", fields[i].name);
        if (fields[i].text)
            append_quoted(line, fields[i].text);
        else
            buf_printf(line, "%" PRId64, fields[i].number);
    }
    buf_append_text(line, "}");
}

static void append_value(struct buf *line, const char *text)
{
    bool plain = text[0] != '\0';
    for (const char *at = text; plain && *at; at++)
        plain = *at > ' ' && *at < 0x7f && *at != '"' && *at != '=';
    if (plain)
        buf_append_text(line, text);
    else
        append_quoted(line, text);
}

/* stderr goes to a terminal or to somebody who notes the time: only files need it. */
static void append_console(struct buf *line, enum log_level level, const char *sentence,
                           const struct log_field *fields, size_t count)
{
    if (writer) {
        append_time(line);
        buf_append_text(line, " ");
    }
    buf_printf(line, "%s: %s: ", speaker_name, names[level]);
    size_t start = buf_length(line);
    buf_append_text(line, sentence);
    json_text_clean((char *)(uintptr_t)buf_text(line) + start);
    for (size_t i = 0; i < count; i++) {
        if (!fields[i].name)
            continue;
        buf_printf(line, " %s=", fields[i].name);
        if (fields[i].text)
            append_value(line, fields[i].text);
        else
            buf_printf(line, "%" PRId64, fields[i].number);
    }
}

/* One write per line, so that lines of several processes do not mix. */
void log_event(enum log_level level, const char *sentence, const struct log_field *fields,
               size_t count)
{
    if (!log_takes(level))
        return;
    cleanup_buf struct buf line = {0};
    if (chosen == LOG_JSON)
        append_json(&line, level, sentence, fields, count);
    else
        append_console(&line, level, sentence, fields, count);
    buf_append_text(&line, "\n");
    if (writer) {
        writer(buf_data(&line), buf_length(&line));
        return;
    }
    ssize_t ignored = write(STDERR_FILENO, buf_data(&line), buf_length(&line));
    (void)ignored;
}

void log_line(enum log_level level, const char *format, ...)
{
    char sentence[1024];
    if (!log_takes(level))
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    log_event(level, sentence, NULL, 0);
}
