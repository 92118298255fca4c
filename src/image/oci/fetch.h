/* Downloads blobs of a repository into the store, several at once, resuming what was interrupted.
 */
#pragma once

#include "image/oci/manifest.h"
#include "image/oci/registry.h"

/*
 * Those that are there already are left alone. What arrives is in the store only when its digest is
 * right. Shows itself as a step of progress with that title. Whoever calls holds the store.
 */
int fetch_blobs(struct registry *registry, const char *title, const struct descriptor *blobs,
                size_t count, struct error *err);
