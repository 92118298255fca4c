/*
 * Where log lines go, as the environment has it:
 *
 *   MSB_LOG_LEVEL         error, warn, info or debug; MSB_LOG is an older name for it
 *   MSB_LOG_FILE          a file instead of stderr
 *   MSB_LOG_CONSOLE       true: stderr too
 *   MSB_LOG_FORMAT        json or console; json in files if nothing is said, console on stderr
 *   MSB_LOG_STRUCTURED    the same as true or false
 *   MSB_LOG_MAX_SIZE      a file of so many bytes becomes FILE.1, that FILE.2, and so on (10 MiB)
 *   MSB_LOG_BACKUP_COUNT  so many of these stay (5)
 *
 * Any number of processes may write to one file.
 */
#pragma once

#include "base/error.h"
#include "base/log.h"

/* `level` and `path` (NULL: stderr) are for what the environment leaves open. */
int log_configure(enum log_level level, const char *path, struct error *err);
/* The file that lines go to; NULL: stderr. */
const char *log_file_path(void);
