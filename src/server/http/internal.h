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
    SSL *tls;          /* NULL: plain, or nothing has come yet */
    struct buf cipher; /* arrived, not decrypted yet */
    struct buf plain;  /* to be encrypted */
    struct buf in;     /* arrived, not parsed yet */
    size_t searched;   /* so much of `in` holds no end of a head */
    uint64_t deadline; /* of the loop's clock; 0: none */
    uint64_t began;    /* when the request's first byte came */
    uint64_t received; /* bytes of its body */
    uint64_t full_at;  /* when reading stopped */
    struct http_request *request;
    uv_shutdown_t shutdown;
    enum http_phase {
        PHASE_HEAD,   /* collecting a request's head, or idle */
        PHASE_BODY,   /* and its body */
        PHASE_WORK,   /* the request is with its handler */
        PHASE_PIPE,   /* after an answer 101: bytes go through */
        PHASE_LAST,   /* the last answer is being written */
        PHASE_LINGER, /* it is: the client may read it in peace, and leave */
        PHASE_CLOSED,
    } phase;
    bool feeding; /* the parser is at work, further up the stack */
    bool sending; /* and so is a handler that sends */
    bool is_full; /* not reading: too much waits */
};

#define HTTP_WAITING_MAX 65536

/* connection.c: */
void connection_accept(struct http_server *server);
void connection_close(struct http_connection *connection);
/* Where an answer is put together. */
static inline struct buf *connection_out(struct http_connection *connection)
{
    return connection->tls ? &connection->plain : &connection->writer.out;
}
/* Writes what was put there. */
void connection_flush(struct http_connection *connection);
/* Nothing more is taken from the client; it may read what is written to it. */
void connection_end(struct http_connection *connection);
/* The answer to its request is complete: on to the next one, or to the end. */
void connection_next(struct http_connection *connection);

/* feed.c: */
/* Bytes that arrived. */
void feed_bytes(struct http_connection *connection, const uint8_t *bytes, size_t length);
/* Goes on with bytes that had to wait. */
void feed_waiting(struct http_connection *connection);

/* Refuses whatever the client has sent, and with it all that it sends from now on. */
void feed_refuse(struct http_connection *connection, int status, const struct error *err);

/* tls.c: */
/* False when the first byte that came begins no handshake. */
bool tls_begin(struct http_connection *connection, uint8_t first);
/* Bytes that arrived; what they mean goes to feed_bytes. */
void tls_take(struct http_connection *connection, const uint8_t *bytes, size_t length);
/* From `plain` to the writer. */
void tls_encrypt(struct http_connection *connection);

/* route.c: */
/* Sets the request's route and parameters. 0, or the status with which it is refused; headers that
 * go with that are added. */
int route_find(struct http_request *request, struct error *err);

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
/* Takes bytes of the body: how many, or the negative status. Ends in phase PHASE_WORK, unless a
 * handler has answered meanwhile. */
long parse_body(struct http_connection *connection, const uint8_t *bytes, size_t length,
                struct error *err);

/* What the name of a header, or a method, may be. */
bool parse_is_token(const char *at, size_t length);
/* What no value may have: control characters other than the tab. */
bool parse_has_control(const char *at, size_t length);

static inline bool is_streamed(const struct http_request *request)
{
    return request->route->body_max == HTTP_STREAMED;
}
