/*
 * The guest kernel: Debian's own, from its package, unwrapped to the ELF file that QEMU boots
 * fastest, with the few modules a machine needs. Kept in $MSB_HOME/kernels/VERSION/:
 *
 *   vmlinux          uncompressed
 *   modules/NAME.ko  uncompressed
 *   modules/order    their names, one a line, each after those it depends on
 */
#pragma once

#include "base/error.h"

struct kernel {
    char *version;
    char *vmlinux; /* path */
    char *modules; /* path of the folder; NULL when all drivers are built in */
};

/*
 * `chosen` is a vmlinux or bzImage of the user's, or NULL for Debian's. A folder `modules` with a
 * file `order` beside a chosen kernel belongs to it. Looks only in the store: ERROR_NOT_FOUND.
 */
int kernel_find(const char *chosen, struct kernel *kernel, struct error *err);
/* The same, but fetches or unwraps what is missing. */
int kernel_ensure(const char *chosen, struct kernel *kernel, struct error *err);
/* The newest that Debian offers, also when the store has an older one. */
int kernel_update(struct kernel *kernel, struct error *err);
void kernel_release(struct kernel *kernel);
