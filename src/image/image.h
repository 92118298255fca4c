/*
 * Images: read-only root file systems, one uncompressed erofs file each, shared by all machines.
 *
 *   images/blobs/sha256-HEX.erofs   named by their contents
 *   images/refs/NAME.json           what a name stands for: digest, size and configuration
 *
 * The built-in images are made from Debian packages by the recipes in the folder images/ of the
 * source, which are part of the program.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct image {
    char *reference; /* "microsandbox/python" */
    char *digest;    /* "sha256:" and 64 hex digits, of the erofs file */
    char *path;      /* of the erofs file */
    uint64_t size;
    char *user;
    char *workdir;
    char **env;     /* "K=V", NULL-terminated */
    char **command; /* what runs when nothing is asked for, NULL-terminated */
    char *language; /* the context that is warmed in the template: "python", "node" or NULL */
};

/* Looks only in the store: ERROR_NOT_FOUND. References: "python", "microsandbox/python:latest". */
int image_find(const char *reference, struct image *image, struct error *err);
/* The same, but builds it when it is missing or when its recipe has changed. */
int image_ensure(const char *reference, struct image *image, struct error *err);
/* Whether the program that we are knows how it is made. */
bool image_is_built_in(const char *reference);
void image_release(struct image *image);
/* The references in the store, sorted; for strv_free. */
int image_list(char ***references, struct error *err);
