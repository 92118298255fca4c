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
/* Writes everything out. Nothing changes there from now on, whoever still runs, and the disk is as
 * if it had been unmounted. */
void boot_seal_kept_disk(void);
/* Lets another process go through that, with mounts of its own, which end with it. */
int boot_rehearse_kept_disk(int (*part)(struct error *), struct error *err);
