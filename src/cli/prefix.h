/* Output of several sandboxes on one terminal: whole lines, each with a name in front. */
#pragma once

#include <stddef.h>
#include <stdio.h>

#include "base/buf.h"

struct prefix {
    FILE *to;
    const char *name;
    int width;       /* of the widest name */
    size_t n;        /* which of the names it is, for its colour */
    struct buf line; /* its end is not there yet */
};

/* Prints the lines that are whole; of the rest at most a bounded part is kept. */
void prefix_take(struct prefix *prefix, const void *bytes, size_t length);
/* Prints the rest. */
void prefix_finish(struct prefix *prefix);
