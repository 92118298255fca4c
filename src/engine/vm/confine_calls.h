#pragma once

#include "base/error.h"

/*
 * Installs the list of system calls that QEMU may make, for the calling process and what it
 * executes. Returns the descriptor on which opens for writing by name are reported.
 */
int confine_calls(struct error *err);
