/*
 * The HTTP server: one process that serves the API, and one beside it, the launcher, that starts
 * sandboxes. $MSB_HOME/server/ holds its lock and info.json, which says where it listens. It can
 * die at any time: sandboxes live on with their keepers, and the next server finds them.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

struct server_options {
    const char *host;
    uint16_t port;                         /* 0: any */
    bool dev;                              /* no keys are asked for */
    const char *key;                       /* signs API keys; NULL: that of the home folder */
    bool insecure;                         /* so be it, on an address that others can reach */
    const char *tls_certificate, *tls_key; /* files; NULL: plain HTTP */
    /* What clients may have of the host. */
    char **volumes;      /* folders that they may share, with all below; NULL: none */
    const char *engines; /* that they may choose, with commas; the first is the default */
};

struct server_info {
    pid_t pid;
    char host[64];
    uint16_t port;
    bool dev;
    bool tls;
    char log[PATH_MAX]; /* the file of its log; "": its stderr */
};

/* Wrong options are told here, before anything is started. */
int server_check(const struct server_options *options, struct error *err);
/*
 * Serves until SIGTERM or SIGINT, reading certificate and key anew at SIGHUP. `ready` is called
 * once, when it listens.
 */
int server_run(const struct server_options *options,
               void (*ready)(const struct server_info *info, void *context), void *context,
               struct error *err);

/* "http://127.0.0.1:5555", for free(). */
char *server_url(const struct server_info *info);
/* The server that runs in this home folder; ERROR_NOT_FOUND when there is none. */
int server_find(struct server_info *info, struct error *err);
/* The same for the one that runs or ran last. */
int server_find_last(struct server_info *info, struct error *err);
/* Asks it to end and waits until it has. */
int server_stop(const struct server_info *info, struct error *err);
