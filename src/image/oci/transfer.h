/*
 * Downloads over HTTP, several at once. Redirects are followed, but Authorization goes to the first
 * host only. Proxies and the store of certificates are the system's, or those that SSL_CERT_FILE
 * and SSL_CERT_DIR name.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

struct transfer {
    char *url;
    char **headers;  /* "Name: value", NULL-terminated */
    bool plain;      /* http is allowed */
    uint64_t offset; /* the bytes before it are not asked for */
    uint64_t limit;  /* of the body, from the offset; more is an error */

    /* Gets the body of a status below 300; whole == true: the offset was ignored by the server. */
    int (*take)(struct transfer *transfer, const uint8_t *bytes, size_t length, bool whole,
                struct error *err);
    void *owner;

    /* How it ended: a failure to get an answer, or a status, whatever it is. */
    struct error err; /* code 0: there was an answer */
    long status;
    char *challenge;    /* WWW-Authenticate, of the first host only */
    struct buf message; /* the first bytes of the body of other statuses */
    uint64_t received;
};

/*
 * Runs them all to their ends, at most four at a time. `tick` (may be NULL) is called a few times a
 * second. Negative only when nothing could be tried, or for ERROR_CANCELLED.
 */
int transfers_run(struct transfer *const *transfers, size_t count, void (*tick)(void *owner),
                  void *owner, struct error *err);
/* Forgets how it ended, for another try. */
void transfer_reset(struct transfer *transfer);
void transfer_release(struct transfer *transfer);

/* A body in memory: for `take`, with the buffer as the owner. */
int transfer_take_memory(struct transfer *transfer, const uint8_t *bytes, size_t length, bool whole,
                         struct error *err);
