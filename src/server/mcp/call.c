/* A call: what it says on the way, its answer, or its end without one. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/json_text.h"
#include "base/mem.h"
#include "server/http/http.h"
#include "server/mcp/internal.h"

static struct mcp_call **list_of(const struct mcp_call *call)
{
    return call->peer ? &call->peer->calls : &call->mcp->loose;
}

static const json_t *meta_of(const struct mcp_call *call)
{
    return json_object_get(call->params, "_meta");
}

struct mcp_call *mcp_call_make(const struct mcp_incoming *incoming)
{
    struct mcp_call *call = xcalloc(1, sizeof *call);
    struct mcp_peer *peer = incoming->peer;
    call->mcp = incoming->mcp;
    call->message = json_incref(incoming->message);
    call->id = json_object_get(call->message, "id");
    if (!json_object_get(call->message, "params"))
        json_object_set_new(call->message, "params", json_object());
    call->params = json_object_get(call->message, "params");
    call->peer = peer;
    call->stream = incoming->stream;
    call->is_modern = incoming->is_modern;
    call->base = incoming->request ? http_base(incoming->request) : NULL;
    snprintf(call->scope, sizeof call->scope, "%s", incoming->scope);
    call->era = call->is_modern ? MCP_MODERN : peer->version;
    const json_t *meta = meta_of(call);
    int level = level_of(message_member(meta, MCP_META "logLevel"));
    call->level = level < 0 ? MCP_SILENT : (enum mcp_level)level;
    call->abilities = json_object_get(meta, MCP_META "clientCapabilities");
    if (!call->is_modern) {
        call->level = peer->level;
        call->abilities = peer->abilities;
    }
    struct mcp_call **list = list_of(call);
    call->next = *list;
    *list = call;
    return call;
}

struct mcp_call *mcp_call_find(struct mcp_call *first, const json_t *id)
{
    while (first && !json_equal(first->id, id))
        first = first->next;
    return first;
}

/* Questions of a call that is over have no one to tell the answer to. */
static void forget_questions(struct mcp_call *call)
{
    struct mcp_question **at = call->peer ? &call->peer->questions : NULL;
    while (at && *at) {
        struct mcp_question *question = *at;
        if (question->call != call) {
            at = &question->next;
            continue;
        }
        *at = question->next;
        free(question);
    }
}

static struct mcp_stream *release(struct mcp_call *call, enum mcp_outcome outcome)
{
    const struct mcp_offer *offer = call->mcp->offer;
    struct mcp_stream *stream = call->stream;
    struct mcp_call **at = list_of(call);
    if (call->tool && offer->tool_over)
        offer->tool_over(call, outcome);
    forget_questions(call);
    subscription_forget(call);
    while (*at != call)
        at = &(*at)->next;
    *at = call->next;
    json_decref(call->message);
    free(call->base);
    free(call);
    return stream;
}

static void finish(struct mcp_call *call, json_t *message, int status)
{
    const json_t *result = json_object_get(message, "result");
    bool failed = !result || json_is_true(json_object_get(result, "isError"));
    struct mcp_stream *stream = release(call, failed ? MCP_FAILED : MCP_DONE);
    stream->finish(stream, message, status);
    json_decref(message);
}

/* What every modern result says. */
static void decorate(const struct mcp_call *call, json_t *result)
{
    const struct mcp_offer *offer = call->mcp->offer;
    json_t *meta = json_object_get(result, "_meta");
    if (!meta) {
        meta = json_object();
        json_object_set_new(result, "_meta", meta);
    }
    json_object_set_new(meta, MCP_META "serverInfo",
                        json_pack("{s:s, s:s}", "name", offer->name, "version", offer->version));
    if (!json_object_get(result, "resultType"))
        json_object_set_new(result, "resultType", json_string("complete"));
    if (!call->caching)
        return;
    json_object_set_new(result, "ttlMs", json_integer(0));
    json_object_set_new(result, "cacheScope", json_string(call->caching));
}

void mcp_succeed(struct mcp_call *call, json_t *result)
{
    if (call->is_modern)
        decorate(call, result);
    finish(call, message_result(call->id, result), 200);
}

/* Legacy clients lose the error when the status is another one than 200. */
static int status_of(const struct mcp_call *call, enum mcp_code code)
{
    if (!call->is_modern)
        return 200;
    if (code == MCP_NO_METHOD)
        return 404;
    return code <= MCP_HEADER_MISMATCH && code >= MCP_UNKNOWN_VERSION ? 400 : 200;
}

void mcp_fail(struct mcp_call *call, enum mcp_code code, json_t *data, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    cleanup_free char *text = xvasprintf(format, args);
    va_end(args);
    json_text_clean(text);
    finish(call, message_error(call->id, code, text, data), status_of(call, code));
}

void mcp_fail_resource(struct mcp_call *call, const char *uri)
{
    mcp_fail(call, call->is_modern ? MCP_INVALID_PARAMS : MCP_NO_RESOURCE,
             json_pack("{s:s}", "uri", uri), "there is no resource %.500s", uri);
}

void mcp_succeed_page(struct mcp_call *call, const char *name, json_t *items,
                      const char *next_cursor)
{
    json_t *result = json_pack("{s:o}", name, items);
    if (next_cursor)
        json_object_set_new(result, "nextCursor", json_string(next_cursor));
    mcp_succeed(call, result);
}

void mcp_complete(struct mcp_call *call, json_t *values)
{
    mcp_succeed(call, json_pack("{s:{s:o, s:i, s:b}}", "completion", "values", values, "total",
                                (int)json_array_size(values), "hasMore", 0));
}

static void notify(struct mcp_call *call, const char *method, json_t *params)
{
    json_t *message = message_notification(method, params);
    call->stream->send(call->stream, message);
    json_decref(message);
}

bool mcp_wants_progress(const struct mcp_call *call)
{
    const json_t *token = json_object_get(meta_of(call), "progressToken");
    return json_is_string(token) || json_is_integer(token);
}

void mcp_progress(struct mcp_call *call, double progress, double total, const char *message)
{
    if (!mcp_wants_progress(call))
        return;
    json_t *params =
        json_pack("{s:O, s:f}", "progressToken", json_object_get(meta_of(call), "progressToken"),
                  "progress", progress);
    if (total > 0)
        json_object_set_new(params, "total", json_real(total));
    if (message)
        json_object_set_new(params, "message", json_string(message));
    notify(call, "notifications/progress", params);
}

void mcp_log(struct mcp_call *call, enum mcp_level level, const char *logger, json_t *data)
{
    static const char *const names[] = {"debug", "info",     "notice", "warning",
                                        "error", "critical", "alert",  "emergency"};
    enum mcp_level wanted = call->is_modern ? call->level : call->peer->level;
    if (level < wanted) {
        json_decref(data);
        return;
    }
    json_t *params = json_pack("{s:s, s:o}", "level", names[level], "data", data);
    if (logger)
        json_object_set_new(params, "logger", json_string(logger));
    notify(call, "notifications/message", params);
}

void mcp_ask(struct mcp_call *call, const char *method, json_t *params,
             void (*answered)(struct mcp_call *call, const json_t *result))
{
    struct mcp_question *question = xcalloc(1, sizeof *question);
    question->id = ++call->mcp->next_question;
    question->call = call;
    question->answered = answered;
    question->next = call->peer->questions;
    call->peer->questions = question;
    json_t *message = message_notification(method, params);
    json_object_set_new(message, "id", json_integer(question->id));
    call->stream->send(call->stream, message);
    json_decref(message);
}

void mcp_let_go(struct mcp_call *call)
{
    if (call->stream->let_go)
        call->stream->let_go(call->stream);
}

void mcp_call_cancel(struct mcp_call *call)
{
    if (call->cancelled)
        call->cancelled(call);
    struct mcp_stream *stream = release(call, MCP_CANCELLED);
    stream->finish(stream, NULL, 0);
}

void mcp_call_cancel_all(struct mcp_call *first)
{
    for (struct mcp_call *call = first, *next; call; call = next) {
        next = call->next;
        mcp_call_cancel(call);
    }
}
