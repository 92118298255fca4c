/* Talks to one repository of a registry, and gets the authorization that it asks for. */
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "base/error.h"
#include "image/oci/credentials.h"
#include "image/oci/transfer.h"
#include "image/reference.h"

struct registry {
    char *name; /* as in references: "docker.io" */
    char *base; /* "https://registry-1.docker.io" */
    char *repository;
    char *authorization; /* a header; NULL: none so far */
    bool plain;          /* http, because somebody named it as insecure */
};

/* `insecure` allows http, as MSB_INSECURE_REGISTRIES does. */
void registry_open(struct registry *registry, const struct reference *reference, bool insecure);
void registry_close(struct registry *registry);

/* A manifest, by tag or digest; what has a digest is checked against it. */
int registry_manifest(struct registry *registry, const char *version, struct buf *text,
                      struct error *err);
/* Do these credentials work? Those on file are not used. */
int registry_check_login(struct registry *registry, const struct credentials *credentials,
                         struct error *err);

/* For those who run their own transfers: the address and headers of something in the repository. */
void registry_prepare(const struct registry *registry, const char *path, const char *accept,
                      struct transfer *transfer);
/* What a transfer that was answered with 401 asks for. */
int registry_authenticate(struct registry *registry, const char *challenge, struct error *err);
/* The error for a transfer that did not bring what was wanted. */
int registry_explain(const struct registry *registry, const struct transfer *transfer,
                     const char *what, struct error *err);
