/*
 * Images: read-only root file systems, one uncompressed erofs file each, shared by all machines.
 *
 *   images/blobs/sha256-HEX.erofs   named by their contents
 *   images/refs/NAME.json           what a name stands for: digest, size and configuration
 *
 * The built-in images are made from Debian packages by the recipes in the folder images/ of the
 * source, which are part of the program. All others come from registries (the folder oci).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct image {
    char *reference; /* "microsandbox/python", "docker.io/library/alpine:latest" */
    char *digest;    /* "sha256:" and 64 hex digits, of the erofs file */
    char *path;      /* of the erofs file */
    uint64_t size;
    char *user;
    char *workdir;
    char **env;          /* "K=V", NULL-terminated */
    char **command;      /* what runs when nothing is asked for, NULL-terminated */
    char *language;      /* the context that is warmed in the template: "python", "node" or NULL */
    char **blobs;        /* of one from a registry: manifest, configuration and layers, by digest */
    uint64_t created_us; /* when it came into the store */
};

/*
 * The full form of a reference, which is as in image/reference.h, or the front of the digest of an
 * image in the store. All that is below takes both.
 */
int image_resolve(const char *text, char **reference, struct error *err);
/* Looks only in the store: ERROR_NOT_FOUND. */
int image_find(const char *reference, struct image *image, struct error *err);
/*
 * The same, but when it is missing, it is built or fetched from its registry. Built anew when its
 * recipe has changed; what came from a registry stays as it is until image_pull.
 */
int image_ensure(const char *reference, struct image *image, struct error *err);
/* Asks the registry again; *changed (may be NULL) tells whether there was something new. */
int image_pull(const char *reference, bool insecure, struct image *image, bool *changed,
               struct error *err);
/* Forgets the name, and frees what no other name needs; *freed in bytes. */
int image_remove(const char *reference, uint64_t *freed, struct error *err);
/* From an archive or a folder, and to an archive: see image/oci/archive.h. */
int image_import(const char *path, const char *name, const char *tag, struct image *image,
                 struct error *err);
int image_export(const char *reference, int fd, struct error *err);
/* Whether the program that we are knows how it is made. */
bool image_is_built_in(const char *reference);
void image_release(struct image *image);
/* The references in the store, sorted; for strv_free. */
int image_list(char ***references, struct error *err);
