/*
 * Answers over HTTP: JSON, and a stream of events as soon as something must be said before the
 * answer. A legacy client may leave such a stream and come back for the rest with GET and
 * Last-Event-ID; a modern client that leaves has cancelled.
 */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "server/http/http.h"
#include "server/mcp/internal.h"

#define PULSE_MS 15000
#define RETRY_MS 1000
/* A client that reads nothing gets no news beyond this, only its answers. */
#define UNREAD_MAX (4u << 20)
#define LOG_MAX (16u << 20)
/* Streams that are over and whose clients have not come back: how many, and their bytes. */
#define LEFT_MAX 128
#define LEFT_BYTES_MAX (64u << 20)

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
    struct http_stream *next_left;
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
    struct http_stream **left = &stream->mcp->left;
    while (*left && *left != stream)
        left = &(*left)->next_left;
    if (*left)
        *left = stream->next_left;
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

void mcp_http_answer(struct http_request *request, const json_t *message, int status)
{
    cleanup_free char *text = message_text(message);
    http_answer(request, status, "application/json", text, strlen(text));
}

/* Kept for a client that may come back; beyond what there is room for, those left first go. */
static void leave(struct http_stream *stream)
{
    struct http_stream **at = &stream->mcp->left;
    size_t count = 1, bytes = stream->logged;
    for (; *at; at = &(*at)->next_left, count++)
        bytes += (*at)->logged;
    *at = stream;
    for (; count > LEFT_MAX || bytes > LEFT_BYTES_MAX; count--) {
        struct http_stream *oldest = stream->mcp->left;
        bytes -= oldest->logged;
        free_stream(oldest);
    }
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
    } else {
        leave(stream);
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
            mcp_http_answer(request, message, status);
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

static struct http_stream *make(struct mcp *mcp, struct mcp_peer *peer,
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

struct mcp_stream *mcp_http_stream(struct mcp *mcp, struct mcp_peer *peer,
                                   struct http_request *request, bool begins)
{
    struct http_stream *stream = make(mcp, peer, request);
    stream->begins = begins;
    return &stream->base;
}

void mcp_http_listen(struct mcp *mcp, struct mcp_peer *peer, struct http_request *request)
{
    struct http_stream *stream = make(mcp, peer, request);
    peer->back = &stream->base;
    begin_events(stream);
}

void mcp_http_forget(struct mcp_peer *peer)
{
    for (struct http_stream *stream = peer->streams, *next; stream; stream = next) {
        next = stream->next_of_peer;
        free_stream(stream);
    }
}

void mcp_http_close(struct mcp *mcp)
{
    for (struct http_stream *stream = mcp->events, *next; stream; stream = next) {
        next = stream->next_open;
        finish_events(stream, NULL);
    }
}

/* ---- coming back ---------------------------------------------------------------------------- */

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

void mcp_http_resume(struct mcp_peer *peer, struct http_request *request, const char *last)
{
    unsigned number = 0, after = 0;
    int matched = sscanf(last, "%u_%u", &number, &after);
    struct http_stream *stream = peer->streams;
    while (stream && stream->number != number)
        stream = stream->next_of_peer;
    if (matched != 2 || !stream)
        http_answer(request, 204, NULL, NULL, 0);
    else if (stream->request)
        mcp_http_refuse(request, 409, MCP_INVALID_REQUEST, NULL,
                        "somebody reads this stream already");
    else
        send_rest(stream, request, after);
}
