/* An archive that is being imported, unpacked already; its two kinds are a file each. */
#pragma once

#include <jansson.h>

#include "base/buf.h"
#include "image/oci/manifest.h"
#include "image/oci/tree.h"

struct import {
    struct tree folder; /* the layout, resolved within itself */
    const char *tag;
    char *name;
    struct buf manifest_text;
    struct manifest manifest;
};

/* Fills in the manifest, and the name if there is none yet. All that the manifest names is in the
 * store then. */
int import_docker(struct import *import, struct error *err);

/* A small file of the archive; NULL when it cannot be read. */
json_t *import_read_json(const struct import *import, const char *path, struct error *err);
/* Takes a file into the store. *digest is what it has to be, or NULL to be told. */
int import_take_blob(const struct import *import, const char *path, char **digest, uint64_t *size,
                     struct error *err);
/* The error for a list of several images, of which the user has to choose one… */
int import_refuse_several(const json_t *list, const char *(*name_of)(const json_t *entry),
                          struct error *err);
/* …and for one that has not the tag that was chosen. */
int import_refuse_tag(const struct import *import, struct error *err);
