/*
 * From layers to a root file system. The archives are hostile, so they are read by a process of
 * their own: this program again, as root of a user namespace where the caller is not root, with the
 * new root as its whole world and few rights (confine.h).
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "image/image.h"

/*
 * Applies the layers, the lowest first, to the empty folder and makes the image's working folder.
 * Finds out the language by the interpreters that there are on the image's path.
 */
int unpack_layers(const char *root, char *const *layers, struct image *image, struct error *err);

/*
 * The same, and packs it as image/pack.h does, all on a file system in memory over the empty folder
 * that is gone afterwards: making and removing many small files takes a disk many times longer.
 * ERROR_NO_SPACE when `size` bytes do not suffice.
 */
int unpack_in_memory(const char *root, uint64_t size, char *const *layers, const char *blob,
                     const char *emptied, struct image *image, struct error *err);

/* What that process does; its exit code. words: root, working folder, path, layers. */
int unpack_main(char *const *words, size_t count);
