/* Results of code, shown to a person: values on stdout, errors with their traceback on stderr. */
#pragma once

#include "base/buf.h"

struct results {
    struct buf in; /* a record that is not whole yet */
};

/* Bytes of CHANNEL_RESULTS. */
void results_take(struct results *results, const uint8_t *bytes, size_t length);
void results_free(struct results *results);
