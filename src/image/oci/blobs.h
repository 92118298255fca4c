/*
 * What images from registries are made of, by digest and shared between them:
 *
 *   images/oci/sha256-HEX       manifests, configurations and layers, as they were published
 *   images/partial/sha256-HEX   downloads that were interrupted, to be resumed
 *
 * Whoever adds to it holds it meanwhile, so that nothing is collected before a reference names it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

/* What to do when there is no room for them. */
#define SPACE_HINT "free some space (msb rmi), or set MSB_HOME to a folder on another disk"

/* A descriptor to close when the reference is written. */
int blobs_hold(struct error *err);
/* A lock for fetching that one; waits for it. */
int blobs_lock(const char *digest, struct error *err);

char *blobs_path(const char *digest);
char *blobs_partial_path(const char *digest);
bool blobs_have(const char *digest, uint64_t size);
/* Moves a file of the same file system there. */
int blobs_take(const char *path, const char *digest, struct error *err);
int blobs_write(const void *bytes, size_t length, const char *digest, struct error *err);

/*
 * Removes what no reference names, and downloads that nobody has resumed for a day; nothing while
 * somebody holds it. Returns the bytes that became free.
 */
uint64_t blobs_collect(void);
