/*
 * Mounts that are made out of sight, as descriptors, and attached where they belong once they are
 * complete. Names that a hostile image can shape are never followed.
 */
#pragma once

#include <sys/types.h>

#include "base/error.h"
#include "engine/engine.h"

struct mount_option {
    const char *key;
    const char *value;
};

/*
 * Whether the kernel has file systems of that type, found out by asking for one: the kernel loads a
 * module that is not loaded yet. Returns 0 or the error: ENODEV when it has none, another when the
 * caller may not mount anything, not even in a user namespace.
 */
int mount_try_type(const char *type);
/* A new file system of that type; options end with a NULL key. Returns a descriptor. */
int mount_make(const char *type, const struct mount_option *options, unsigned attributes,
               struct error *err);
/* The same files as at an existing path, without what is mounted below. Returns a descriptor. */
int mount_clone(const char *path, unsigned attributes, struct error *err);
/* The same with what is mounted below. */
int mount_clone_all(const char *path, unsigned attributes, struct error *err);
/* A shared folder of the user who runs us. Returns a descriptor. */
int mount_own_volume(const struct machine_volume *volume, unsigned attributes, struct error *err);
/* A shared folder, with owners translated so that `user` (an id on the host) may act as the
 * folder's owner. Only for root; returns a descriptor. */
int mount_volume(const struct machine_volume *volume, uid_t user, struct error *err);
/* Puts a mount at a folder or file that the caller knows to be safe to name; "" is `at` itself. */
int mount_attach(int tree, int at, const char *name, struct error *err);

/* Nothing that is mounted here from now on shows anywhere else. */
int mounts_make_private(struct error *err);
/* The current folder, which is a mount, becomes the root; the old root is let go of as a whole. */
int mounts_enter_here(struct error *err);
