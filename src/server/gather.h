/*
 * A call whose answer is wanted as a whole, within limits: what a sandbox sends must not fill the
 * server's memory.
 */
#pragma once

#include "sandbox/collect.h"
#include "server/lines.h"

/* What a call may print of which the answer tells; the rest is counted by the sandbox. */
#define GATHER_OUTPUT_MAX (1ull << 20)

struct gather {
    struct collection collection; /* records and error; what is printed goes to lines */
    struct lines lines;
    size_t taken;
    bool is_full; /* too much came, and the call was cancelled */
    /* What it prints, as it comes; may be NULL. */
    void (*printed)(struct gather *gather, const uint8_t *bytes, size_t length);
    void (*ended)(struct gather *gather, const struct outcome *outcome);
    void *context;
};

/* `input` must last until the end. The handler may free the gather. */
void gather_start(struct gather *gather, struct sandbox_client *client, enum operation operation,
                  const struct buf *fields, const void *input, size_t length);
void gather_free(struct gather *gather);
