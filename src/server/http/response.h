/*
 * An answer of some other HTTP server, taken apart as it comes. Whoever wrote it is not trusted:
 * what is broken, endless or ambiguous is refused.
 */
#pragma once

#include <http_parser.h>
#include <stdbool.h>

#include "base/buf.h"
#include "base/error.h"
#include "server/http/http.h"

#define RESPONSE_HEADERS_MAX 200

struct response;

struct response_events {
    /* Status and headers are there; once. */
    void (*head)(struct response *response);
    void (*body)(struct response *response, const uint8_t *bytes, size_t length);
    /* Nothing more belongs to it. Not after status 101. */
    void (*end)(struct response *response);
};

struct response {
    const struct response_events *events;
    void *context;
    int status;
    struct http_header headers[RESPONSE_HEADERS_MAX];
    size_t header_count;
    bool has_length;
    uint64_t length; /* of the body, if that was told */
    bool is_complete;
    /* For the parser. */
    http_parser parser;
    struct buf text; /* names and values, each with a NUL */
    size_t starts[RESPONSE_HEADERS_MAX * 2];
    size_t start_count;
    unsigned preludes; /* answers 1xx before the real one */
    bool has_head, has_no_body;
};

/* `has_no_body`: it answers HEAD. */
void response_init(struct response *response, const struct response_events *events, void *context,
                   bool has_no_body);
/* How many of the bytes belong to the answer; negative: it is broken. What is behind an answer 101
 * belongs to the new protocol. */
long response_feed(struct response *response, const uint8_t *bytes, size_t length,
                   struct error *err);
/* No more bytes come: negative if the answer is not whole then. */
int response_eof(struct response *response, struct error *err);
const char *response_header(const struct response *response, const char *name);
void response_free(struct response *response);
