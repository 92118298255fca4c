/*
 * From layers to a root file system. The archives are hostile, so they are read by a process of
 * their own: this program again, as root of a user namespace where the caller is not root, with the
 * new root as its whole world and few rights (confine.h).
 */
#pragma once

#include <stddef.h>

#include "base/error.h"
#include "image/image.h"

/*
 * Applies the layers, the lowest first, to the empty folder and makes the image's working folder.
 * Finds out the language by the interpreters that there are on the image's path.
 */
int unpack_layers(const char *root, char *const *layers, struct image *image, struct error *err);

/* What that process does; its exit code. words: root, working folder, path, layers. */
int unpack_main(char *const *words, size_t count);
