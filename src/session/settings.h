/*
 * How sessions are to be: read once from the environment, where each variable begins with MSB_.
 * docs/configuration.md lists them. A value that makes no sense is an error that names the
 * variable, the value and what to write instead.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct session_flavor {
    const char *name;
    unsigned cpus, memory_mb;
};

struct session_template {
    const char *name;
    const char *image;
    const char *language;
};

/* By name, without regard to case; NULL when there is no such. */
const struct session_flavor *session_flavor_find(const char *name);
/* The same; "nodejs" and "javascript" are node. */
const struct session_template *session_template_find(const char *name);

struct session_settings {
    char *server_url; /* in front of the addresses that answers name; NULL: as the client says */
    const struct session_flavor *flavor;
    const struct session_template *template;
    uint64_t idle_s;        /* a session ends after so long without a call */
    uint64_t lifetime_s;    /* and after so long in any case; 0: never */
    uint64_t cleanup_s;     /* how often those whose time is over are looked for */
    uint64_t orphan_s;      /* how often sandboxes without a session are */
    uint64_t execution_s;   /* what a call may take that says nothing itself */
    uint64_t answer_s;      /* when a model that gets no news of its call is answered at last */
    uint64_t start_ms;      /* what a start may take */
    uint64_t max_sessions;  /* at once */
    uint64_t max_memory_mb; /* of all together; 0: any */
    uint64_t max_upload;    /* bytes of a file that comes in */
    uint64_t max_download;  /* and of one that goes out */
    uint64_t url_s;         /* how long the address of an artifact is good where keys are needed */
    bool evict;             /* the one that was not used for longest makes room for a new one */
    char **volumes;         /* HOST:GUEST[:ro] of every session */
    char **volume_roots;    /* clients may share what lies below these folders of the host */
    char *network;          /* where sandboxes may connect to, as in egress_policy.h */
};

/* From the environment. session_settings_free also on failure. */
int session_settings_read(struct session_settings *settings, struct error *err);
void session_settings_free(struct session_settings *settings);
