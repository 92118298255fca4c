/* The image store below $MSB_HOME/images: blobs by digest, references to them. */
#pragma once

#include <stdbool.h>

#include "base/error.h"
#include "image/image.h"

/*
 * What a normalized reference stands for; ERROR_NOT_FOUND when there is none or its blob is gone.
 * *recipe_hash (may be NULL) is that of the recipe it was built from.
 */
int store_load(const char *reference, struct image *image, char **recipe_hash, struct error *err);
/* Is there such a reference, whatever became of its blob? */
bool store_has(const char *reference);
/* What it was made of, even if its file is gone; for strv_free. */
int store_load_blobs(const char *reference, char ***blobs, struct error *err);
/*
 * Moves the erofs file at `blob` into the store and points the reference at it. config has the
 * reference and the configuration; what else an image has is found out here. recipe_hash is NULL
 * for one from a registry. When blob is NULL, the file of config->digest is in the store already.
 */
int store_add(const char *blob, const struct image *config, const char *recipe_hash,
              struct error *err);
/* Removes the reference, and its file unless another one needs it; *freed in bytes. */
int store_remove(const char *reference, uint64_t *freed, struct error *err);
/* An exclusive lock for making that image; waits for it with progress, until cancelled. */
int store_lock(const char *reference, struct error *err);
