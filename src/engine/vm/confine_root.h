#pragma once

#include <stdint.h>

#include "engine/vm/confine.h"

/* The user that QEMU is in its own user namespace; guests see shared files as this user's. */
#define CONFINE_USER 1000
/* Libraries of ours to be loaded into it first, see inside/. */
#define CONFINE_CAPSTONE "/capstone.so"
#define CONFINE_PMEM "/pmem.so"
#define CONFINE_SASL "/sasl.so"
/* …which is where it looks for others first… */
#define CONFINE_LINKS "/links"
/* …and the program that thaws it. */
#define CONFINE_THAW "/thaw"

/* What QEMU reads of the host: the loader and libraries, its firmware. Each list ends with NULL. */
extern const char *const confine_libraries[];
extern const char *const confine_firmware[];

/* The libraries above, as they are in this program. */
struct inside_file {
    const char *name;
    const uint8_t *bytes;
    size_t size;
};
struct inside_file confine_capstone(void);
struct inside_file confine_pmem(void);

/*
 * Inside the new namespaces: becomes the user, builds the root and moves into it. As root,
 * volume_trees holds what mount_volume returned; otherwise it is filled here.
 */
int confine_enter_root(const struct confinement *confinement, int *volume_trees, bool as_root,
                       struct error *err);
