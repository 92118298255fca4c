/*
 * The guest kernel: Debian's own, from its package, unwrapped to the ELF file that QEMU boots
 * fastest, with the few modules a machine needs. Kept in $MSB_HOME/kernels/VERSION/:
 *
 *   vmlinux          uncompressed
 *   modules/NAME.ko  uncompressed
 *   modules/order    their names, one a line, each after those it depends on
 *   verdict          of its trial (kernel_trial.h): empty when it has passed, else how it failed
 *
 * The newest one that has passed its trial is used. A newer one that has not been tried yet is
 * tried when a template is made next; one that failed is never used.
 */
#pragma once

#include <stdbool.h>

#include "base/error.h"

struct kernel {
    char *version;
    bool is_tried; /* it has passed its trial, or is the user's own choice */
    char *vmlinux; /* path */
    char *modules; /* path of the folder; NULL when all drivers are built in */
};

/*
 * `chosen` is a vmlinux or bzImage of the user's, or NULL for Debian's. A folder `modules` with a
 * file `order` beside a chosen kernel belongs to it. Looks only in the store: ERROR_NOT_FOUND.
 */
int kernel_find(const char *chosen, struct kernel *kernel, struct error *err);
/* Fetches or unwraps what is missing. The kernel may have to be tried yet. */
int kernel_ensure(const char *chosen, struct kernel *kernel, struct error *err);
/* The newest that Debian offers and that has not failed, also when the store has an older one. */
int kernel_update(struct kernel *kernel, struct error *err);
/* Writes down how its trial went; `failure` is NULL when it has passed. */
int kernel_judge(const struct kernel *kernel, const char *failure, struct error *err);
/* How those in the store failed that did, newest first: "VERSION: REASON". For strv_free. */
char **kernel_failures(void);
void kernel_release(struct kernel *kernel);
