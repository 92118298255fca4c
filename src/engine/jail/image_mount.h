/* An image's file as a file system. */
#pragma once

#include "base/error.h"

/*
 * Mounts it read-only and returns a descriptor of the mount, attached nowhere. All jails of one
 * image share what of it is in memory. Nothing is left when the last one has gone.
 */
int image_mount(const char *path, struct error *err);
/* The same for a disk that is written to (engine/disk.h), one device for each. */
int disk_mount(const char *path, struct error *err);
