/*
 * Diagnostics for operators: one line per event, on stderr or in a file (log_file.h). A line has a
 * level, a sentence and, at will, named values. Not for results. Neither code nor what it printed
 * nor keys go into it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };
enum log_format {
    LOG_CONSOLE, /* for people: who speaks, level, sentence, name=value */
    LOG_JSON,    /* one object, with the time */
};

struct log_field {
    const char *name; /* NULL: there is none */
    const char *text; /* NULL: the number */
    int64_t number;
};

/* Lines above this level are dropped; LOG_LEVEL_WARN at first. */
void log_set_level(enum log_level level);
bool log_takes(enum log_level level);
/* LOG_CONSOLE at first. */
void log_set_format(enum log_format format);
/* "keeper demo": who speaks, in front of every line. */
void log_set_speaker(const char *speaker);
/* Takes each line, with its newline, instead of stderr; NULL: stderr again, for people. */
void log_set_writer(void (*write)(const void *line, size_t length));

void log_line(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));
void log_event(enum log_level level, const char *sentence, const struct log_field *fields,
               size_t count);

#define log_error(...) log_line(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warn(...) log_line(LOG_LEVEL_WARN, __VA_ARGS__)
#define log_info(...) log_line(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...) log_line(LOG_LEVEL_DEBUG, __VA_ARGS__)
