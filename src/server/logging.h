/*
 * The server's log: to stderr, to a file that is rotated, or both; as plain lines, or as JSON for
 * machines. Read from MSB_LOG_LEVEL, MSB_LOG_FILE, MSB_LOG_MAX_SIZE, MSB_LOG_BACKUP_COUNT,
 * MSB_LOG_CONSOLE and MSB_LOG_STRUCTURED; when none is set all stays as it was.
 */
#pragma once

#include "base/error.h"

/* Only looks whether the settings make sense. */
int logging_check(struct error *err);
/* From now on lines of this process go where the settings say. */
int logging_open(struct error *err);
