/*
 * An HTTP/1.1 server on a libuv loop. Requests are parsed strictly and handed to the handler of
 * their route, with their whole body or, where the route says so, ahead of it; answers go out in
 * the order of the requests, whole or streamed. A connection without a request holds no buffers.
 *
 * A request belongs to its handler until the answer is complete, or until `gone` was called because
 * the client has left; afterwards it does not exist any more.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/buf.h"
#include "base/error.h"
#include "server/http/tls.h"

#define HTTP_HEAD_MAX 16384
#define HTTP_HEADERS_MAX 100
#define HTTP_PARAMETERS_MAX 8
/* Bytes of a streamed body that its handler may have without having consumed them. */
#define HTTP_WINDOW (256u << 10)
#define HTTP_ID_MAX 64

struct http_connection;
struct http_request;

struct http_route {
    const char *method; /* GET answers HEAD too; NULL: any */
    /* "{name}" stands for one part of the path, "*" at the end for the rest of it. The first route
     * that fits counts. */
    const char *path;
    void (*handle)(struct http_request *request);
    size_t body_max;
};

/* As body_max: the request is handled before its body, which goes to on_body as it comes. The
 * handler may set the request's body_max. */
#define HTTP_STREAMED SIZE_MAX

struct http_parameter {
    const char *name; /* within the route's path */
    const char *raw;  /* within the request's */
    size_t raw_length;
    char *value; /* percent-decoded */
};

struct http_header {
    const char *name, *value;
};

struct http_request {
    struct http_connection *connection;
    struct http_server *server;
    const char *method;
    const char *path;  /* without the query */
    const char *query; /* "" when there is none */
    struct http_header headers[HTTP_HEADERS_MAX];
    size_t header_count;
    struct http_parameter parameters[HTTP_PARAMETERS_MAX];
    size_t parameter_count;
    struct buf body; /* of routes that are not streamed */
    char scope[64];  /* for `admit`: what the request may touch */
    /* What is known of it when it is over. */
    char id[HTTP_ID_MAX + 1]; /* the client's X-Request-Id, or ours; goes back in that header */
    uint64_t began_us;        /* when its head had arrived */
    uint64_t received, sent;  /* bytes of the bodies */
    int status;               /* 0: there was no answer */
    bool was_left;            /* the client left before the answer was complete */
    void *record;             /* of whoever has `over` */
    /* For the handler. */
    void *context;
    void (*gone)(struct http_request *request);    /* the client has left */
    void (*drained)(struct http_request *request); /* of a stream: all is written; may be NULL */
    /* Of a streamed body or a pipe: bytes, for http_consumed; NULL throws them away. */
    void (*on_body)(struct http_request *request, const uint8_t *bytes, size_t length);
    void (*on_body_end)(struct http_request *request); /* also where there was none; may be NULL */
    /* Of a pipe: the server is to end. NULL: the pipe is just closed. */
    void (*on_drain)(struct http_request *request);
    /* For the library. */
    const struct http_route *route;
    uint64_t body_max;
    char *rewritten;  /* path that was given by http_rewrite */
    char *head;       /* what method, path and headers point into */
    struct buf added; /* header lines for the answer */
    size_t unconsumed;
    bool is_head, keep_alive, is_old;
    bool is_answering; /* the head of its answer is on its way */
    bool is_sized;     /* the answer's length was told, so there are no chunks */
};

struct http_limits {
    size_t connections;
    uint64_t head_ms;  /* for a request's head to arrive, and for a TLS handshake */
    uint64_t body_ms;  /* for its body, and a second more for each 10 KB */
    uint64_t idle_ms;  /* between requests */
    uint64_t stall_ms; /* without a client taking a byte of its answer, or a handler of its body */
    uint64_t ping_ms;  /* a silent WebSocket is sent a ping, and ended after as long again */
};

struct http_server {
    uv_loop_t *loop;
    const struct http_route *routes; /* ends with a NULL path */
    struct http_limits limits;       /* http_init sets the defaults */
    /* Decides before the route does: false when it has answered. May be NULL. */
    bool (*admit)(struct http_request *request);
    /* The request is about to go, answered or not. May be NULL. */
    void (*over)(struct http_request *request);
    void *context;
    SSL_CTX *tls; /* NULL: plain HTTP */
    /* Draining and all connections are closed. */
    void (*drained)(struct http_server *server);
    /* For the library. */
    uv_tcp_t listener;
    uv_timer_t tick;
    struct http_connection *connections;
    size_t connection_count;
    uint64_t accepted; /* connections so far */
    uint32_t id_prefix, id_count;
    unsigned open_handles; /* listener and tick, until closed */
    bool draining;
    uint64_t date_at;
    char date[40];
    char read_buffer[65536];
};

void http_init(struct http_server *server, uv_loop_t *loop, const struct http_route *routes);
/* Listens; port 0 takes any. */
int http_listen(struct http_server *server, const char *host, uint16_t port, struct error *err);
uint16_t http_port(const struct http_server *server);
/* No new connections; those that have a request end after its answer. Then `drained`. */
void http_drain(struct http_server *server);
/* Ends what draining has left. */
void http_abandon(struct http_server *server);

/* The value, NULL when there is none. Names are compared without regard to case. */
const char *http_header(const struct http_request *request, const char *name);
/* Where the client found this server, such as "http://localhost:5555", for free(); "" when it does
 * not say. */
char *http_base(const struct http_request *request);
/* What "{name}" or "*" of the route stands for; NULL when it has no such part. */
const char *http_parameter(const struct http_request *request, const char *name);
/* What "*" stands for as it was sent, not decoded. */
const char *http_rest(const struct http_request *request);
/* For `admit`: another path, allocated, before the route is looked for. */
void http_rewrite(struct http_request *request, char *path);
/* The client's address as text. */
void http_peer(const struct http_request *request, char *text, size_t size);
/* The value of NAME=value in the query, decoded, for free(); NULL when it is not there or broken.
 */
char *http_query(const struct http_request *request, const char *name);
/* So many bytes that on_body got are dealt with: as many more may come. */
void http_consumed(struct http_request *request, size_t length);

/* A header line for the answer that follows; the value is ours. */
void http_add_header(struct http_request *request, const char *name, const char *value);
/* How long a part of the work took, for the answer that follows. Only requests with the header
 * X-Timing are told, in headers Server-Timing; they also hear how long all of it took. */
void http_add_timing(struct http_request *request, const char *name, uint64_t us);
/* The whole answer. The request does not exist any more when this returns, and `gone` is not
 * called.
 */
void http_answer(struct http_request *request, int status, const char *type, const void *body,
                 size_t length);
/* The same with JSON, which it takes. */
void http_answer_json(struct http_request *request, int status, json_t *json);
/* An error in our shape: {"error": {"code", "message", "hint"}}. */
void http_answer_error(struct http_request *request, int status, const struct error *err);
/* The same with the status that fits its code. */
void http_answer_failure(struct http_request *request, const struct error *err);

/* What a GET of something with this many bytes and this tag (in quotes) asks for: 200 and all of
 * it, 206 and a part, or 304 or 416 and nothing. Adds the headers that go with it. */
struct http_part {
    int status;
    uint64_t from, length;
};
struct http_part http_choose_part(struct http_request *request, uint64_t size, const char *tag);

/* An answer whose length is not known yet. http_waiting says how much of it the client has yet to
 * take; whoever sends on regardless fills our memory. */
void http_stream_begin(struct http_request *request, int status, const char *type);
/* The same with a length that is known: exactly so many bytes must follow. */
void http_stream_begin_sized(struct http_request *request, int status, const char *type,
                             uint64_t length);
void http_stream_send(struct http_request *request, const void *bytes, size_t length);
void http_stream_end(struct http_request *request);
/* The rest of the answer cannot be had: closes the connection, so that the client knows. */
void http_stream_break(struct http_request *request);
size_t http_waiting(const struct http_request *request);
/* One server-sent event of a stream; data must be one line. */
void http_send_event(struct http_request *request, const char *event, const char *data);

/* Answers 101: from now on the connection is a pipe for bytes. What comes goes to on_body, and
 * `gone` says that the client has left. */
void http_pipe_begin(struct http_request *request, const char *protocol);
void http_pipe_send(struct http_request *request, const void *bytes, size_t length);
/* Closes the pipe once all is written. */
void http_pipe_end(struct http_request *request);
