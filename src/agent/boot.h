/*
 * Makes a machine out of a kernel and our initramfs: loads modules, puts the image and its
 * writable disk together, and moves into them. Ends with the agent's port open.
 */
#pragma once

#include "base/error.h"

/* Returns the descriptor of the port to the keeper. */
int boot_machine(struct error *err);
/*
 * Makes the disk that outlives the machine the place of everything written from now on. Processes
 * that run already go along, but for their working folders.
 */
int boot_move_to_kept_disk(struct error *err);
/* Puts it together for that, and apart again. */
int boot_try_kept_disk(struct error *err);
