/* Puts a kernel to the test before it is used: a small machine with a full disk and little memory.
 */
#pragma once

#include "engine/engine.h"
#include "engine/vm/kernel.h"

/*
 * Needs an image to boot, that of `spec`. Fails with ERROR_UNAVAILABLE or ERROR_TIMEOUT when it is
 * the kernel that failed; other codes say nothing about it.
 */
int kernel_trial(const struct kernel *kernel, const struct machine_spec *spec,
                 const char *accelerator, struct error *err);
