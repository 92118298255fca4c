/*
 * Makes a machine out of a kernel and our initramfs: loads modules, puts the image and its
 * writable disk together, and moves into them. Ends with the agent's port open.
 */
#pragma once

#include "base/error.h"

/* Returns the descriptor of the port to the keeper. */
int boot_machine(struct error *err);
