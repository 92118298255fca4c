/* How an operation ended: the fields of its END frame. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "proto/frame.h"

enum verdict {
    VERDICT_DONE = 0,  /* it did what it was asked to; commands say exited instead */
    VERDICT_EXITED,    /* with exit_code */
    VERDICT_SIGNALED,  /* by signal */
    VERDICT_TIMEOUT,   /* killed when its time was over */
    VERDICT_CANCELLED, /* killed because the caller asked or went away */
    VERDICT_MEMORY,    /* the kernel killed it for want of memory */
    VERDICT_ERROR,     /* it could not be done: see error */
    VERDICT_COUNT,
};

struct outcome {
    enum verdict verdict;
    int exit_code;
    int signal;
    uint64_t duration_us;
    bool state_lost;       /* the context's variables are gone */
    uint64_t count;        /* of a run: how many its context has had, this one included */
    uint64_t output_bytes; /* everything it printed, when more than the limit; else 0 */
    char *killed; /* the process killed for want of memory: itself, or one that it started */
    struct error error;
    char *status; /* a JSON text: OP_STATUS and others that describe something */
};

const char *verdict_name(enum verdict verdict);

/* Appends an END frame. */
void outcome_append(struct buf *out, uint32_t stream, const struct outcome *outcome);
/* Reads one; outcome_free afterwards, also on failure. */
int outcome_read(const struct frame *frame, struct outcome *outcome, struct error *err);
void outcome_free(struct outcome *outcome);
/* The outcome of an operation that could not be done. */
struct outcome outcome_error(const struct error *err);
