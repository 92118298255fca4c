#pragma once

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

/*
 * Inside the new namespaces: becomes the user, builds the root and moves into it. As root,
 * volume_trees holds what mount_volume returned; otherwise it is filled here.
 */
int confine_enter_root(const struct confinement *confinement, int *volume_trees, bool as_root,
                       struct error *err);
