#pragma once

#include <stdbool.h>

#include "base/error.h"

struct confine_calls {
    bool is_alone;      /* in namespaces of its own, with an empty root */
    bool changes_files; /* of shared folders */
};

/*
 * Installs the list of system calls that QEMU may make, for the calling process and what it
 * executes. Returns the descriptor on which opens for writing by name are reported.
 */
int confine_calls(const struct confine_calls *options, struct error *err);
