/*
 * Names of images, read as everywhere: [REGISTRY/]REPOSITORY[:TAG][@DIGEST]. The first part is a
 * registry when it has a dot or a colon or is "localhost"; otherwise OCI_REGISTRY_DOMAIN is asked,
 * or docker.io, where a repository of one word is below library/.
 *
 * The images that msb builds itself come first: "python", "microsandbox/python" and both with
 * ":latest" mean ours. With any other tag, or a digest, they are what a registry has.
 */
#pragma once

#include "base/error.h"

struct reference {
    char *registry;   /* "docker.io", "host:5000" */
    char *repository; /* "library/alpine" */
    char *version;    /* a tag, or a digest that decides alone */
};

/*
 * The full form that the store uses: "microsandbox/python" for ours, else
 * "docker.io/library/alpine:latest" or "host:5000/team/tool@sha256:…". It is safe as a relative
 * path, and its own full form. ERROR_INVALID for what is no name.
 */
int reference_normalize(const char *text, char **reference, struct error *err);
/* Takes a full form of an image from a registry apart. */
struct reference reference_split(const char *full);
void reference_release(struct reference *reference);
