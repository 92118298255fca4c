/*
 * What registries say about an image: manifests (OCI, docker schema 2), lists of them for several
 * architectures, and configurations. All of it is checked before anybody uses it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "image/image.h"

#define MANIFEST_MAX ((uint64_t)4 << 20)
#define CONFIG_MAX ((uint64_t)8 << 20)
#define LAYERS_MAX 256

struct descriptor {
    char *digest; /* "sha256:" and 64 hex digits */
    uint64_t size;
};

struct manifest {
    struct descriptor config;
    struct descriptor *layers; /* the lowest first */
    size_t layer_count;
};

/* The formats that we ask for, for the header Accept. */
#define MANIFEST_TYPES                                                                             \
    "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, "        \
    "application/vnd.docker.distribution.manifest.list.v2+json, "                                  \
    "application/vnd.docker.distribution.manifest.v2+json"

/* "amd64": this host, as registries name it. */
const char *manifest_architecture(void);
/*
 * When the text is a list, *chosen is its entry for this host, and ERROR_NOT_FOUND names what there
 * is instead; when it is a manifest, chosen->digest stays NULL.
 */
int manifest_choose(const void *text, size_t length, struct descriptor *chosen, struct error *err);
int manifest_parse(const void *text, size_t length, struct manifest *manifest, struct error *err);
/* User, working folder, environment and command of the image; for image_release. */
int manifest_config(const void *text, size_t length, struct image *image, struct error *err);
void manifest_release(struct manifest *manifest);
