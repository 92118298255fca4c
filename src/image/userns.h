/*
 * Being root for the owners of files. Real root needs nothing; an ordinary user becomes root of a
 * user namespace with the subordinate ids that the system gave him (/etc/subuid), so that every
 * owner in an image is right.
 */
#pragma once

#include <stdbool.h>

#include "base/error.h"
#include "base/process.h"

/* ERROR_MISSING with what to install or set up. */
int userns_check(struct error *err);
/* process_run as such a root, with mounts that are its own and vanish with it. Root of a container
 * that may make no mounts goes without. */
int userns_run(char *const *argv, struct process_options options, struct error *err);
/* rm -rf as such a root. Not stopped by a cancel: it is what cleans up after one. */
void userns_remove(const char *path);
/* Removes what builds that were killed left in tmp/, where it belongs to subordinate ids. */
void userns_sweep(const char *tmp);
