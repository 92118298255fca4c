/* The protocol over HTTP: what requests ask for. http_stream.c has the answers. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/mem.h"
#include "server/http/http.h"
#include "server/mcp/internal.h"

void mcp_http_refuse(struct http_request *request, int status, int code, const json_t *id,
                     const char *text)
{
    json_t *message = message_error(id, code, text, NULL);
    mcp_http_answer(request, message, status);
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
        mcp_http_refuse(request, 400, MCP_INVALID_REQUEST, id,
                        "the header Mcp-Session-Id is missing; initialize gives one");
    else if (!peer)
        mcp_http_refuse(request, 404, MCP_INVALID_REQUEST, id,
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
    receive_request(&(struct mcp_incoming){.mcp = mcp,
                                           .message = message,
                                           .peer = peer,
                                           .scope = request->scope,
                                           .is_modern = is_modern,
                                           .stream = mcp_http_stream(mcp, peer, request, begins),
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
        mcp_http_refuse(request, 400, MCP_INVALID_REQUEST, NULL,
                        "the body must be one request, notification or response of JSON-RPC 2.0");
}

static void post(struct mcp *mcp, struct http_request *request)
{
    json_error_t where;
    if (!is_json(request)) {
        mcp_http_refuse(request, 415, MCP_INVALID_REQUEST, NULL,
                        "Content-Type must be application/json");
        return;
    }
    json_t *message = json_loadb((const char *)buf_data(&request->body), buf_length(&request->body),
                                 JSON_REJECT_DUPLICATES, &where);
    if (message)
        take(mcp, request, message);
    else
        mcp_http_refuse(request, 400, MCP_PARSE, NULL, "the body is no JSON");
    json_decref(message);
}

static void get(struct mcp *mcp, struct http_request *request)
{
    const char *accept = http_header(request, "Accept");
    const char *last = http_header(request, "Last-Event-ID");
    if (accept && !strstr(accept, "text/event-stream") && !strstr(accept, "*/*")) {
        mcp_http_refuse(request, 406, MCP_INVALID_REQUEST, NULL,
                        "Accept must have text/event-stream");
        return;
    }
    struct mcp_peer *peer = find_peer(mcp, request, NULL);
    if (!peer)
        return;
    if (last) {
        mcp_http_resume(peer, request, last);
        return;
    }
    if (peer->back) {
        mcp_http_refuse(request, 409, MCP_INVALID_REQUEST, NULL,
                        "this session has a stream already");
        return;
    }
    mcp_http_listen(mcp, peer, request);
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
        mcp_http_refuse(request, 405, MCP_INVALID_REQUEST, NULL,
                        "this version of the protocol has POST only");
        return;
    }
    if (strcmp(request->method, "DELETE") == 0)
        end_conversation(mcp, request);
    else
        get(mcp, request);
}
