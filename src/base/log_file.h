/*
 * Where log lines go, as the environment has it:
 *
 *   MSB_LOG_LEVEL   error, warn, info or debug; MSB_LOG is an older name for it
 *   MSB_LOG_FILE    a file instead of stderr
 *   MSB_LOG_FORMAT  json or console; json in files if nothing is said, console on stderr
 *
 * A file that has reached LOG_FILE_MAX becomes FILE.1, that FILE.2, and so on; LOG_FILES_KEPT stay.
 * Any number of processes may write to one file.
 */
#pragma once

#include "base/error.h"
#include "base/log.h"

#define LOG_FILE_MAX (10u << 20)
#define LOG_FILES_KEPT 5

/* `level` and `path` (NULL: stderr) are for what the environment leaves open. */
int log_configure(enum log_level level, const char *path, struct error *err);
/* The file that lines go to; NULL: stderr. */
const char *log_file_path(void);
