/* What a sandbox's commands wrote, kept for reading later: bounded, one part before the last. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define OUTPUT_LOG_PART (8u << 20)

struct output_log {
    int fd;
    char *path;
    uint64_t size;
};

int output_log_open(struct output_log *log, const char *folder, struct error *err);
/* Failure to write (a full disk) loses output in the log and nothing else. */
void output_log_write(struct output_log *log, const void *bytes, size_t length);
void output_log_close(struct output_log *log);
