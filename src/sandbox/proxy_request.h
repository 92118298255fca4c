/*
 * The head of a request to the proxy: CONNECT host:port, or one with a whole http:// address, which
 * is written anew as its server expects it. Strict: what could be read in two ways is refused.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "sandbox/egress_policy.h"

#define PROXY_HEAD_MAX (16u * 1024)

struct proxy_request {
    bool is_connect;
    char host[EGRESS_NAME_MAX + 1];
    uint16_t port;
    struct buf head; /* what the server is to read in place of the head; empty for CONNECT */
};

/* The length of the head, 0 when there is more to come, negative when it is refused. Free the
 * request in any case. */
int proxy_request_read(struct proxy_request *request, const uint8_t *bytes, size_t length,
                       struct error *err);
void proxy_request_free(struct proxy_request *request);
