/* From blobs in the store to an image that runs. */
#pragma once

#include "base/buf.h"
#include "base/error.h"
#include "image/oci/manifest.h"

/* Whether it can run here; its configuration is in the store. */
int install_check(const struct manifest *manifest, struct error *err);
/*
 * All that the manifest names is in the store. Unpacks the layers, unless another image has the
 * same, and lets the reference stand for the result. Whoever calls holds the store.
 */
int install_image(const char *reference, const struct buf *manifest_text,
                  const struct manifest *manifest, struct error *err);
