/* Results of code, shown to a person: values on stdout, errors with their traceback on stderr. */
#pragma once

#include "sandbox/records.h"

/* Bytes of CHANNEL_RESULTS. Returns -1 with errno set when they cannot be written. */
int results_take(struct records *records, const uint8_t *bytes, size_t length);
