/*
 * The protocol over HTTP. A request is answered with JSON, and with a stream of events as soon as
 * something must be said before the answer. A legacy client may leave such a stream and come back
 * for the rest with GET and Last-Event-ID; a modern client that leaves has cancelled.
 */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/mem.h"
#include "server/http/http.h"
#include "server/mcp/internal.h"

#define PULSE_MS 15000
#define RETRY_MS 1000
/* A client that reads nothing gets no news beyond this, only its answers. */
#define UNREAD_MAX (4u << 20)
#define LOG_MAX (16u << 20)

struct http_stream {
    struct mcp_stream base;
    struct mcp *mcp;
    struct mcp_peer *peer;        /* NULL: a modern request */
    struct http_request *request; /* NULL: the client is not there */
    bool begins;                  /* its answer begins a conversation */
    bool is_events;
    bool is_over;
    /* For a client that may come back. */
    unsigned number; /* 0: it may not */
    char **log;      /* its events from the first */
    size_t logged;
    struct http_stream *next_of_peer;
    struct http_stream *next_open;
};

/* ---- streams of events ---------------------------------------------------------------------- */

static void on_pulse(uv_timer_t *pulse)
{
    struct mcp *mcp = pulse->data;
    static const char text[] = ": keepalive\n\n";
    for (struct http_stream *at = mcp->events; at; at = at->next_open)
        http_stream_send(at->request, text, sizeof text - 1);
}

static void open_events(struct http_stream *stream)
{
    struct mcp *mcp = stream->mcp;
    http_add_header(stream->request, "Cache-Control", "no-cache, no-transform");
    http_add_header(stream->request, "X-Accel-Buffering", "no");
    http_stream_begin(stream->request, 200, "text/event-stream");
    if (!mcp->events)
        uv_timer_start(&mcp->pulse, on_pulse, PULSE_MS, PULSE_MS);
    stream->is_events = true;
    stream->next_open = mcp->events;
    mcp->events = stream;
}

/* The request is answered, or its client has left. */
static void lose_request(struct http_stream *stream)
{
    struct mcp *mcp = stream->mcp;
    struct http_stream **at = &mcp->events;
    stream->request = NULL;
    while (*at && *at != stream)
        at = &(*at)->next_open;
    if (*at)
        *at = stream->next_open;
    if (!mcp->events)
        uv_timer_stop(&mcp->pulse);
}

static void end_request(struct http_stream *stream)
{
    struct http_request *request = stream->request;
    lose_request(stream);
    http_stream_end(request);
}

static void free_stream(struct http_stream *stream)
{
    struct http_stream **at = stream->peer ? &stream->peer->streams : NULL;
    while (at && *at && *at != stream)
        at = &(*at)->next_of_peer;
    if (at && *at)
        *at = stream->next_of_peer;
    strv_free(stream->log);
    free(stream);
}

static void send_text(struct http_stream *stream, const char *text)
{
    if (stream->request)
        http_stream_send(stream->request, text, strlen(text));
}

/* Streams that can be joined again give every event a name. */
static void begin_events(struct http_stream *stream)
{
    struct mcp_peer *peer = stream->peer;
    open_events(stream);
    if (!peer || strcmp(peer->version, MCP_RESUMABLE) < 0 || peer->back == &stream->base)
        return;
    stream->number = ++stream->mcp->next_stream;
    stream->next_of_peer = peer->streams;
    peer->streams = stream;
    cleanup_free char *text =
        xasprintf("id: %u_0\nretry: %d\ndata: \n\n", stream->number, RETRY_MS);
    send_text(stream, text);
}

static void send_event(struct http_stream *stream, const json_t *message)
{
    cleanup_free char *json = message_text(message);
    size_t count = strv_length(stream->log);
    char *text = stream->number ? xasprintf("id: %u_%zu\nevent: message\ndata: %s\n\n",
                                            stream->number, count + 1, json)
                                : xasprintf("event: message\ndata: %s\n\n", json);
    send_text(stream, text);
    if (stream->number && stream->logged < LOG_MAX) {
        stream->logged += strlen(text);
        strv_append(&stream->log, text);
        return;
    }
    free(text);
}

static void send_message(struct mcp_stream *base, const json_t *message)
{
    struct http_stream *stream = (struct http_stream *)base;
    if (stream->request && http_waiting(stream->request) > UNREAD_MAX)
        return;
    if (stream->request && !stream->is_events)
        begin_events(stream);
    if (stream->request || stream->number)
        send_event(stream, message);
}

/* ---- answers -------------------------------------------------------------------------------- */

static void answer_json(struct http_request *request, const json_t *message, int status)
{
    cleanup_free char *text = message_text(message);
    http_answer(request, status, "application/json", text, strlen(text));
}

static void finish_events(struct http_stream *stream, const json_t *message)
{
    if (message && (stream->request || stream->number))
        send_event(stream, message);
    stream->is_over = true;
    if (stream->request) {
        end_request(stream);
        free_stream(stream);
    } else if (!stream->number || !message) {
        free_stream(stream);
    }
}

static void finish(struct mcp_stream *base, const json_t *message, int status)
{
    struct http_stream *stream = (struct http_stream *)base;
    struct http_request *request = stream->request;
    struct mcp_peer *newcomer = stream->begins ? stream->peer : NULL;
    if (stream->is_events) {
        finish_events(stream, message);
        return;
    }
    if (request && newcomer && json_object_get(message, "result")) {
        peer_name(stream->mcp, newcomer);
        http_add_header(request, "Mcp-Session-Id", newcomer->id);
        newcomer = NULL;
    }
    if (request) {
        lose_request(stream);
        if (message)
            answer_json(request, message, status);
        else
            http_answer(request, 202, NULL, NULL, 0);
    }
    struct mcp *mcp = stream->mcp;
    free_stream(stream);
    if (newcomer)
        peer_free(mcp, newcomer);
}

static void let_go(struct mcp_stream *base)
{
    struct http_stream *stream = (struct http_stream *)base;
    if (stream->request && !stream->is_events)
        begin_events(stream);
    if (stream->request && stream->number)
        end_request(stream);
}

/* Nothing is known of the call here but that its messages go to this stream. */
static void on_gone(struct http_request *request)
{
    struct http_stream *stream = request->context;
    struct mcp *mcp = stream->mcp;
    lose_request(stream);
    if (stream->peer && stream->peer->back == &stream->base) {
        stream->peer->back = NULL;
        free_stream(stream);
        return;
    }
    struct mcp_call *call = mcp->loose;
    while (call && call->stream != &stream->base)
        call = call->next;
    if (call)
        mcp_call_cancel(call);
}

static struct http_stream *make_stream(struct mcp *mcp, struct mcp_peer *peer,
                                       struct http_request *request)
{
    struct http_stream *stream = xcalloc(1, sizeof *stream);
    stream->base = (struct mcp_stream){.send = send_message, .finish = finish, .let_go = let_go};
    stream->mcp = mcp;
    stream->peer = peer;
    stream->request = request;
    request->context = stream;
    request->gone = on_gone;
    return stream;
}

void http_streams_forget(struct mcp_peer *peer)
{
    for (struct http_stream *stream = peer->streams, *next; stream; stream = next) {
        next = stream->next_of_peer;
        free_stream(stream);
    }
}

void http_streams_close(struct mcp *mcp)
{
    for (struct http_stream *stream = mcp->events, *next; stream; stream = next) {
        next = stream->next_open;
        finish_events(stream, NULL);
    }
}

/* ---- requests ------------------------------------------------------------------------------- */

static void refuse(struct http_request *request, int status, int code, const json_t *id,
                   const char *text)
{
    json_t *message = message_error(id, code, text, NULL);
    answer_json(request, message, status);
    json_decref(message);
}

static bool is_json(const struct http_request *request)
{
    static const char type[] = "application/json";
    const char *given = http_header(request, "Content-Type");
    size_t length = sizeof type - 1;
    return given && strncasecmp(given, type, length) == 0 && strchr("; \t", given[length]);
}

/* The conversation that a legacy request belongs to; NULL: the request is answered. */
static struct mcp_peer *find_peer(struct mcp *mcp, struct http_request *request, const json_t *id)
{
    const char *name = http_header(request, "Mcp-Session-Id");
    struct mcp_peer *peer = name ? peer_find(mcp, name, request->scope) : NULL;
    if (!name)
        refuse(request, 400, MCP_INVALID_REQUEST, id,
               "the header Mcp-Session-Id is missing; initialize gives one");
    else if (!peer)
        refuse(request, 404, MCP_INVALID_REQUEST, id,
               "there is no such session; initialize begins one");
    return peer;
}

static void take_request(struct mcp *mcp, struct http_request *request, json_t *message,
                         bool is_modern)
{
    bool begins = !is_modern && strcmp(message_member(message, "method"), "initialize") == 0;
    struct mcp_peer *peer = NULL;
    if (begins) {
        peer = peer_make(mcp);
        snprintf(peer->scope, sizeof peer->scope, "%s", request->scope);
    } else if (!is_modern) {
        peer = find_peer(mcp, request, json_object_get(message, "id"));
        if (!peer)
            return;
    }
    struct http_stream *stream = make_stream(mcp, peer, request);
    stream->begins = begins;
    receive_request(&(struct mcp_incoming){.mcp = mcp,
                                           .message = message,
                                           .peer = peer,
                                           .scope = request->scope,
                                           .is_modern = is_modern,
                                           .stream = &stream->base,
                                           .request = request});
}

static void take_other(struct mcp *mcp, struct http_request *request, json_t *message,
                       bool is_modern)
{
    struct mcp_peer *peer = is_modern ? NULL : find_peer(mcp, request, NULL);
    if (!is_modern && !peer)
        return;
    if (peer && message_is_response(message))
        receive_response(peer, message);
    else if (peer)
        receive_notification(&(struct mcp_incoming){.mcp = mcp, .message = message, .peer = peer});
    http_answer(request, 202, NULL, NULL, 0);
}

static void take(struct mcp *mcp, struct http_request *request, json_t *message)
{
    bool is_modern = message_is_modern(message, http_header(request, "MCP-Protocol-Version"));
    if (message_is_request(message))
        take_request(mcp, request, message, is_modern);
    else if (message_is_response(message) || message_is_notification(message))
        take_other(mcp, request, message, is_modern);
    else
        refuse(request, 400, MCP_INVALID_REQUEST, NULL,
               "the body must be one request, notification or response of JSON-RPC 2.0");
}

static void post(struct mcp *mcp, struct http_request *request)
{
    json_error_t where;
    if (!is_json(request)) {
        refuse(request, 415, MCP_INVALID_REQUEST, NULL, "Content-Type must be application/json");
        return;
    }
    json_t *message = json_loadb((const char *)buf_data(&request->body), buf_length(&request->body),
                                 JSON_REJECT_DUPLICATES, &where);
    if (message)
        take(mcp, request, message);
    else
        refuse(request, 400, MCP_PARSE, NULL, "the body is no JSON");
    json_decref(message);
}

static void send_rest(struct http_stream *stream, struct http_request *request, unsigned after)
{
    size_t count = strv_length(stream->log);
    stream->request = request;
    request->context = stream;
    request->gone = on_gone;
    open_events(stream);
    for (size_t i = after; i < count; i++)
        send_text(stream, stream->log[i]);
    if (stream->is_over)
        finish_events(stream, NULL);
}

static void resume(struct mcp_peer *peer, struct http_request *request, const char *last)
{
    unsigned number = 0, after = 0;
    int matched = sscanf(last, "%u_%u", &number, &after);
    struct http_stream *stream = peer->streams;
    while (stream && stream->number != number)
        stream = stream->next_of_peer;
    if (matched != 2 || !stream)
        http_answer(request, 204, NULL, NULL, 0);
    else if (stream->request)
        refuse(request, 409, MCP_INVALID_REQUEST, NULL, "somebody reads this stream already");
    else
        send_rest(stream, request, after);
}

static void get(struct mcp *mcp, struct http_request *request)
{
    const char *accept = http_header(request, "Accept");
    const char *last = http_header(request, "Last-Event-ID");
    if (accept && !strstr(accept, "text/event-stream") && !strstr(accept, "*/*")) {
        refuse(request, 406, MCP_INVALID_REQUEST, NULL, "Accept must have text/event-stream");
        return;
    }
    struct mcp_peer *peer = find_peer(mcp, request, NULL);
    if (!peer)
        return;
    if (last) {
        resume(peer, request, last);
        return;
    }
    if (peer->back) {
        refuse(request, 409, MCP_INVALID_REQUEST, NULL, "this session has a stream already");
        return;
    }
    struct http_stream *stream = make_stream(mcp, peer, request);
    peer->back = &stream->base;
    begin_events(stream);
}

static void end_conversation(struct mcp *mcp, struct http_request *request)
{
    struct mcp_peer *peer = find_peer(mcp, request, NULL);
    if (!peer)
        return;
    peer_end(mcp, peer);
    http_answer(request, 204, NULL, NULL, 0);
}

void mcp_http_handle(struct mcp *mcp, struct http_request *request)
{
    const char *version = http_header(request, "MCP-Protocol-Version");
    if (strcmp(request->method, "POST") == 0) {
        post(mcp, request);
        return;
    }
    if (version && strcmp(version, MCP_MODERN) >= 0) {
        http_add_header(request, "Allow", "POST");
        refuse(request, 405, MCP_INVALID_REQUEST, NULL,
               "this version of the protocol has POST only");
        return;
    }
    if (strcmp(request->method, "DELETE") == 0)
        end_conversation(mcp, request);
    else
        get(mcp, request);
}
