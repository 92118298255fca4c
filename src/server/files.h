/* A file of a sandbox as the answer to a request: whole, in part, or not at all if unchanged. */
#pragma once

#include "sandbox/client.h"
#include "server/http/http.h"

struct files_sending {
    const char *path;
    bool beneath; /* only if it lies below the working folder */
    bool shown;   /* a browser is to show it rather than to save it */
    uint64_t max; /* bytes of one answer; 0: any */
    /* The client is not used any more. May be NULL. */
    void (*over)(void *context);
    void *context;
};

/* Answers the request, or stops when its client leaves. */
void files_send(struct http_request *request, struct sandbox_client *client,
                const struct files_sending *how);
