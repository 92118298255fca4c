/* Diagnostics for operators, on stderr: one line per event, level first. Not for results. */
#pragma once

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

/* Lines above this level are dropped; LOG_LEVEL_WARN at first. */
void log_set_level(enum log_level level);
/* "keeper demo": who speaks, in front of every line. */
void log_set_speaker(const char *speaker);

/* Lines go there instead of to stderr, without level and speaker in front. */
void log_set_sink(void (*sink)(enum log_level level, const char *text));
const char *log_level_name(enum log_level level);

void log_line(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define log_error(...) log_line(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warn(...) log_line(LOG_LEVEL_WARN, __VA_ARGS__)
#define log_info(...) log_line(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...) log_line(LOG_LEVEL_DEBUG, __VA_ARGS__)
