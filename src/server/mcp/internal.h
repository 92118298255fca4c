/* What the files of this folder share. */
#pragma once

#include "server/mcp/mcp.h"

#define MCP_MODERN "2026-07-28"
#define MCP_NEWEST_LEGACY "2025-11-25"
#define MCP_RESUMABLE "2025-11-25" /* from here on, streams can be left and joined again */
#define MCP_META "io.modelcontextprotocol/"
#define MCP_CONVERSATION_MAX 256

/* Where the messages of one request go. */
struct mcp_stream {
    /* A message ahead of the answer; borrows it. */
    void (*send)(struct mcp_stream *stream, const json_t *message);
    /* The answer, with what HTTP says of it; the stream is gone when this returns. NULL: none will
     * come. */
    void (*finish)(struct mcp_stream *stream, const json_t *message, int status);
    /* The client may come back for the rest. May be NULL. */
    void (*let_go)(struct mcp_stream *stream);
};

/* A question to the client that is not answered yet. */
struct mcp_question {
    json_int_t id;
    struct mcp_call *call;
    void (*answered)(struct mcp_call *call, const json_t *result);
    struct mcp_question *next;
};

/* A client that is known beyond one request: a legacy conversation, or who is on stdio. */
struct mcp_peer {
    char id[MCP_CONVERSATION_MAX]; /* "" on stdio */
    char version[16];              /* "" before initialize */
    char scope[64];
    json_t *abilities;
    enum mcp_level level;
    struct mcp_call *calls;
    struct mcp_question *questions;
    char **watched;          /* resources */
    struct mcp_stream *back; /* for what belongs to no call; NULL: nobody listens */
    struct http_stream *streams;
    struct mcp_peer *next;
};

/* A modern client that listens. */
struct mcp_listener {
    struct mcp_call *call;
    bool tools, prompts, resources;
    char **watched;
    struct mcp_listener *next;
};

struct mcp {
    uv_loop_t *loop;
    const struct mcp_offer *offer;
    json_t *definitions;
    unsigned char *secret;
    size_t secret_length;
    struct mcp_peer *peers; /* those used last come first */
    char **ended;           /* conversations that their clients have ended */
    struct mcp_call *loose; /* modern calls over HTTP */
    struct mcp_listener *listeners;
    struct http_stream *events; /* open streams of events */
    struct http_stream *left;   /* those that are over but were not read to their end */
    uv_timer_t pulse;
    unsigned next_stream;
    json_int_t next_question;
};

/* message.c */
json_t *message_result(const json_t *id, json_t *result);
/* id may be NULL; takes the data. */
json_t *message_error(const json_t *id, int code, const char *text, json_t *data);
json_t *message_notification(const char *method, json_t *params);
/* Compact and in one line; for free(). */
char *message_text(const json_t *message);
bool message_is_request(const json_t *message);
bool message_is_response(const json_t *message);
bool message_is_notification(const json_t *message);
/* A text among the members; NULL when it is none. */
const char *message_member(const json_t *object, const char *name);
bool message_is_modern(const json_t *message, const char *version_header);
int level_of(const char *name);

/* receive.c: one message of a client. */
struct mcp_incoming {
    struct mcp *mcp;
    json_t *message;       /* borrowed */
    struct mcp_peer *peer; /* NULL: a modern request over HTTP */
    const char *scope;
    bool is_modern;
    struct mcp_stream *stream;    /* for requests */
    struct http_request *request; /* NULL: not over HTTP */
};
void receive_request(const struct mcp_incoming *incoming);
void receive_notification(const struct mcp_incoming *incoming);
void receive_response(struct mcp_peer *peer, const json_t *message);

/* modern.c: what must be right before a modern request is looked at. False: it is answered. */
bool modern_admit(const struct mcp_incoming *incoming);

/* methods.c: NULL when there is no such method in that era. */
typedef void method_function(struct mcp_call *call);
method_function *method_find(const char *name, bool is_modern);
const json_t *offer_definition(const struct mcp *mcp, const char *list, const char *name);

/* call.c */
struct mcp_call *mcp_call_make(const struct mcp_incoming *incoming);
struct mcp_call *mcp_call_find(struct mcp_call *first, const json_t *id);
/* Tells whoever works on it, and is gone. */
void mcp_call_cancel(struct mcp_call *call);
void mcp_call_cancel_all(struct mcp_call *first);

/* peer.c */
struct mcp_peer *peer_make(struct mcp *mcp);
/* After initialize: gives it a name that is signed. */
void peer_name(struct mcp *mcp, struct mcp_peer *peer);
/* NULL: there is no such conversation, or no more. */
struct mcp_peer *peer_find(struct mcp *mcp, const char *id, const char *scope);
void peer_end(struct mcp *mcp, struct mcp_peer *peer);
void peer_free(struct mcp *mcp, struct mcp_peer *peer);

/* subscription.c */
void subscription_listen(struct mcp_call *call);
void subscription_forget(struct mcp_call *call);
void subscription_set(struct mcp_call *call, bool wanted);
void subscription_end_all(struct mcp *mcp);

/* http.c: an answer that says what is wrong with the request. */
void mcp_http_refuse(struct http_request *request, int status, int code, const json_t *id,
                     const char *text);

/* http_stream.c */
void mcp_http_answer(struct http_request *request, const json_t *message, int status);
/* Where the messages of this request go; `begins`: its answer begins a conversation. */
struct mcp_stream *mcp_http_stream(struct mcp *mcp, struct mcp_peer *peer,
                                   struct http_request *request, bool begins);
/* For what belongs to no call. */
void mcp_http_listen(struct mcp *mcp, struct mcp_peer *peer, struct http_request *request);
/* A client has come back, and had the event `last`. */
void mcp_http_resume(struct mcp_peer *peer, struct http_request *request, const char *last);
void mcp_http_close(struct mcp *mcp);
void mcp_http_forget(struct mcp_peer *peer);
