/*
 * Output as the SDKs want it: a list of {"stream", "text"}, each one line without its newline, in
 * the order in which the lines ended. Kept as JSON text: a list of a million objects would take
 * hundreds of times the memory of what was printed.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "proto/protocol.h"

struct lines {
    struct buf json;
    struct buf unfinished[CHANNEL_COUNT];
    bool invalid; /* something was no UTF-8 and is shown as U+FFFD */
};

/* CHANNEL_STDOUT or CHANNEL_STDERR. */
void lines_take(struct lines *lines, enum channel channel, const void *bytes, size_t length);
/* Lines that have no newline end now. Stays usable. */
void lines_finish(struct lines *lines);
void lines_free(struct lines *lines);
