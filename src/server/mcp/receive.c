/* What becomes of a client's message. */
#include <string.h>

#include "base/mem.h"
#include "server/mcp/internal.h"

#define CALLS_MAX 256

static size_t calls_under_way(const struct mcp_incoming *incoming)
{
    size_t count = 0;
    const struct mcp_call *at = incoming->peer ? incoming->peer->calls : incoming->mcp->loose;
    for (; at; at = at->next)
        count++;
    return count;
}

void receive_request(const struct mcp_incoming *incoming)
{
    const char *method = message_member(incoming->message, "method");
    if (incoming->is_modern && !modern_admit(incoming))
        return;
    size_t under_way = calls_under_way(incoming);
    struct mcp_call *call = mcp_call_make(incoming);
    method_function *answer = method_find(method, incoming->is_modern);
    if (under_way >= CALLS_MAX)
        mcp_fail(call, MCP_INTERNAL, NULL, "too many requests are under way; wait for some to end");
    else if (!answer)
        mcp_fail(call, MCP_NO_METHOD, NULL, "there is no method %.100s", method);
    else
        answer(call);
}

static void receive_cancelled(const struct mcp_incoming *incoming, const json_t *params)
{
    const json_t *id = json_object_get(params, "requestId");
    struct mcp_call *call = incoming->peer ? mcp_call_find(incoming->peer->calls, id) : NULL;
    if (call)
        mcp_call_cancel(call);
}

void receive_notification(const struct mcp_incoming *incoming)
{
    const char *method = message_member(incoming->message, "method");
    if (strcmp(method, "notifications/cancelled") == 0)
        receive_cancelled(incoming, json_object_get(incoming->message, "params"));
}

void receive_response(struct mcp_peer *peer, const json_t *message)
{
    const json_t *id = json_object_get(message, "id");
    struct mcp_question **at = &peer->questions;
    while (*at && (!json_is_integer(id) || (*at)->id != json_integer_value(id)))
        at = &(*at)->next;
    if (!*at)
        return;
    struct mcp_question *question = *at;
    *at = question->next;
    question->answered(question->call, json_object_get(message, "result"));
    free(question);
}
