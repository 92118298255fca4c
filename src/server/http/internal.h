/* What the files of this folder share. */
#pragma once

#include <http_parser.h>

#include "sandbox/writer.h"
#include "server/http/http.h"

struct http_connection {
    uv_tcp_t tcp;
    struct http_server *server;
    struct http_connection *previous, *next;
    struct writer writer;
    http_parser parser;
    struct buf in;     /* arrived, not parsed yet */
    size_t searched;   /* so much of `in` holds no end of a head */
    uint64_t deadline; /* of the loop's clock; 0: none */
    uint64_t began;    /* when the request's first byte came */
    uint64_t received; /* bytes of its body */
    struct http_request *request;
    uv_shutdown_t shutdown;
    enum {
        PHASE_HEAD,   /* collecting a request's head, or idle */
        PHASE_BODY,   /* and its body */
        PHASE_WORK,   /* the request is with its handler */
        PHASE_LAST,   /* the last answer is being written */
        PHASE_LINGER, /* it is: the client may read it in peace, and leave */
        PHASE_CLOSED,
    } phase;
    bool feeding; /* the parser is at work, further up the stack */
    bool sending; /* and so is a handler that sends */
    bool is_full; /* not reading: too much waits to be parsed */
};

#define HTTP_WAITING_MAX 65536

/* connection.c: */
void connection_accept(struct http_server *server);
void connection_close(struct http_connection *connection);
/* Writes what was put into writer.out. */
void connection_flush(struct http_connection *connection);
/* The answer to its request is complete: on to the next one, or to the end. */
void connection_next(struct http_connection *connection);

/* feed.c: */
/* Bytes that arrived. */
void feed_bytes(struct http_connection *connection, const uint8_t *bytes, size_t length);
/* Goes on with bytes that had to wait. */
void feed_waiting(struct http_connection *connection);

/* request.c: */
struct http_request *request_new(struct http_connection *connection);
/* Once its headers are known. */
void request_identify(struct http_request *request);
void request_free(struct http_request *request);

/* parse.c: */
/* The length of the head with its empty line, 0 when more bytes are needed. */
size_t parse_find_head(const uint8_t *bytes, size_t length, size_t searched);
/* Makes the connection's request. 0, or the status with which it is refused. */
int parse_head(struct http_connection *connection, const uint8_t *bytes, size_t length,
               struct error *err);
/* Takes bytes of the body: how many, or the negative status. Ends in phase PHASE_WORK. */
long parse_body(struct http_connection *connection, const uint8_t *bytes, size_t length,
                struct error *err);
