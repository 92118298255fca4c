/* The image store below $MSB_HOME/images: blobs by digest, references to them. */
#pragma once

#include "base/error.h"
#include "image/image.h"

/*
 * What a normalized reference stands for; ERROR_NOT_FOUND when there is none or its blob is gone.
 * *recipe_hash (may be NULL) is that of the recipe it was built from.
 */
int store_load(const char *reference, struct image *image, char **recipe_hash, struct error *err);
/*
 * Moves the erofs file at `blob` into the store and points the reference at it. config has the
 * reference and the configuration; what else an image has is found out here.
 */
int store_add(const char *blob, const struct image *config, const char *recipe_hash,
              struct error *err);
/* An exclusive lock for building that image; waits for it with progress, until cancelled. */
int store_lock(const char *reference, struct error *err);
