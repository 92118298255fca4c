/* Waiting that ends: at the deadline, on Ctrl-C, or when there is something to read. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/*
 * The index of the first of the descriptors that is readable or hung up. `deadline` is a time of
 * clock_monotonic_ms. Fails with ERROR_TIMEOUT ("`who` did not answer in time") or
 * ERROR_CANCELLED. Keeps the progress line alive meanwhile.
 */
int wait_readable(const int *fds, size_t count, uint64_t deadline, const char *who,
                  struct error *err);
