/* Results of code, shown to a person: values on stdout, errors with their traceback on stderr. */
#pragma once

#include <stdbool.h>

#include "base/buf.h"

struct results {
    struct buf in; /* a record that is not whole yet */
    bool broken;   /* what comes makes no sense any more */
};

/* Bytes of CHANNEL_RESULTS. Returns -1 with errno set when they cannot be written. */
int results_take(struct results *results, const uint8_t *bytes, size_t length);
void results_free(struct results *results);
