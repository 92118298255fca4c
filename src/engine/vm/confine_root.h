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
 * Inside the new namespaces: builds the root and moves into it. volume_fds[i] is either what
 * confine_prepare_volume returned (prepared) or a descriptor of the folder itself.
 */
int confine_enter_root(const struct confinement *confinement, const int *volume_fds, bool prepared,
                       struct error *err);
