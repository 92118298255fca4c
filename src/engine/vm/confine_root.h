#pragma once

#include "engine/vm/confine.h"

/* The user that QEMU is in its own user namespace; guests see shared files as this user's. */
#define CONFINE_USER 1000

/*
 * Before the process starts, outside: a mount of the folder that is ready to be moved to its
 * place, with owners translated so that `user` (an id on the host) may act as the folder's owner.
 * Only for root; returns a descriptor.
 */
int confine_prepare_volume(const struct machine_volume *volume, uid_t user, struct error *err);

/*
 * Inside the new namespaces: becomes the user, builds the root and moves into it. As root,
 * volume_trees holds what confine_prepare_volume returned; otherwise it is filled here.
 */
int confine_enter_root(const struct confinement *confinement, int *volume_trees, bool as_root,
                       struct error *err);
