/*
 * Ports inside sandboxes over the server's own: /proxy/NAMESPACE/NAME/PORT/… and, for browsers,
 * http://PORT-NAME.localhost or PORT-NAME.NAMESPACE.localhost. Under a name of its own a page is of
 * another origin than the API. Under a path it is not: it gets no cookies, and browsers are told to
 * give it no origin at all.
 */
#pragma once

#include "server/context.h"
#include "server/http/response.h"

/* Whether the name in Host is that of a port. */
bool proxy_is_host(const char *host);
/* Turns a request for such a name into one for its path. */
void proxy_rewrite(struct http_request *request);

void proxy_handle(struct http_request *request);
/* A path without its last slash. */
void proxy_redirect(struct http_request *request);

/* What the files of the proxy share. */
struct proxy_target {
    uint16_t port;
    bool by_host;
    bool is_upgrade; /* the client wants another protocol */
    bool is_chunked; /* the length of its body is not known */
};

/* proxy_head.c: */
/* The request's head as the program inside gets it. */
void proxy_request_head(struct buf *out, struct http_request *request,
                        const struct proxy_target *target);
/* Headers of its answer that the client gets. */
void proxy_answer_headers(struct http_request *request, const struct response *response,
                          const struct proxy_target *target);
