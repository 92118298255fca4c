/* Who wants to know when something changes, and telling them. */
#include <string.h>

#include "base/mem.h"
#include "server/mcp/internal.h"

#define WATCHED_MAX 256

static bool is_true(const json_t *object, const char *name)
{
    return json_is_true(json_object_get(object, name));
}

static void watch_all(struct mcp_listener *listener, const json_t *uris)
{
    for (size_t i = 0; i < json_array_size(uris) && i < WATCHED_MAX; i++) {
        const char *uri = json_string_value(json_array_get(uris, i));
        const struct mcp_offer *offer = listener->call->mcp->offer;
        if (uri && offer->can_watch && offer->can_watch(listener->call, uri))
            strv_append(&listener->watched, xstrdup(uri));
    }
}

static json_t *marked(const json_t *id, json_t *params)
{
    json_object_set_new(params, "_meta", json_pack("{s:O}", MCP_META "subscriptionId", id));
    return params;
}

static void acknowledge(const struct mcp_listener *listener)
{
    json_t *honoured = json_object();
    if (listener->tools)
        json_object_set_new(honoured, "toolsListChanged", json_true());
    if (listener->prompts)
        json_object_set_new(honoured, "promptsListChanged", json_true());
    if (listener->resources)
        json_object_set_new(honoured, "resourcesListChanged", json_true());
    if (listener->watched) {
        json_t *uris = json_array();
        for (size_t i = 0; listener->watched[i]; i++)
            json_array_append_new(uris, json_string(listener->watched[i]));
        json_object_set_new(honoured, "resourceSubscriptions", uris);
    }
    struct mcp_call *call = listener->call;
    json_t *message =
        message_notification("notifications/subscriptions/acknowledged",
                             marked(call->id, json_pack("{s:o}", "notifications", honoured)));
    call->stream->send(call->stream, message);
    json_decref(message);
}

void subscription_listen(struct mcp_call *call)
{
    const json_t *wanted = json_object_get(call->params, "notifications");
    const struct mcp_offer *offer = call->mcp->offer;
    if (!json_is_object(wanted)) {
        mcp_fail(call, MCP_INVALID_PARAMS, NULL, "\"notifications\" must say what to listen to");
        return;
    }
    struct mcp_listener *listener = xcalloc(1, sizeof *listener);
    listener->call = call;
    listener->tools = is_true(wanted, "toolsListChanged");
    listener->prompts = is_true(wanted, "promptsListChanged") && offer->prompts;
    listener->resources = is_true(wanted, "resourcesListChanged") && offer->list_resources;
    watch_all(listener, json_object_get(wanted, "resourceSubscriptions"));
    listener->next = call->mcp->listeners;
    call->mcp->listeners = listener;
    acknowledge(listener);
}

void subscription_forget(struct mcp_call *call)
{
    struct mcp_listener **at = &call->mcp->listeners;
    while (*at && (*at)->call != call)
        at = &(*at)->next;
    if (!*at)
        return;
    struct mcp_listener *listener = *at;
    *at = listener->next;
    strv_free(listener->watched);
    free(listener);
}

void subscription_end_all(struct mcp *mcp)
{
    while (mcp->listeners) {
        struct mcp_call *call = mcp->listeners->call;
        mcp_succeed(call, marked(call->id, json_object()));
    }
}

static void unwatch(struct mcp_peer *peer, const char *uri)
{
    char **kept = NULL;
    for (size_t i = 0; peer->watched && peer->watched[i]; i++) {
        if (strcmp(peer->watched[i], uri) != 0)
            strv_append(&kept, xstrdup(peer->watched[i]));
    }
    strv_free(peer->watched);
    peer->watched = kept;
}

void subscription_set(struct mcp_call *call, bool wanted)
{
    const char *uri = message_member(call->params, "uri");
    const struct mcp_offer *offer = call->mcp->offer;
    struct mcp_peer *peer = call->peer;
    if (!uri) {
        mcp_fail(call, MCP_INVALID_PARAMS, NULL, "\"uri\" must be a text");
        return;
    }
    if (wanted && !offer->can_watch(call, uri)) {
        mcp_fail_resource(call, uri);
        return;
    }
    unwatch(peer, uri);
    if (wanted && strv_length(peer->watched) >= WATCHED_MAX) {
        mcp_fail(call, MCP_INVALID_PARAMS, NULL, "at most %d resources can be watched",
                 WATCHED_MAX);
        return;
    }
    if (wanted)
        strv_append(&peer->watched, xstrdup(uri));
    mcp_succeed(call, json_object());
}

/* ---- telling ------------------------------------------------------------------------------- */

static bool concerns(const char *scope, const char *theirs)
{
    return !scope || strcmp(theirs, "*") == 0 || strcmp(theirs, scope) == 0;
}

static void tell_peers(struct mcp *mcp, const char *method, const char *scope, const char *uri)
{
    for (struct mcp_peer *peer = mcp->peers; peer; peer = peer->next) {
        if (!peer->back || !concerns(scope, peer->scope) ||
            (uri && !strv_contains(peer->watched, uri)))
            continue;
        json_t *message = message_notification(method, uri ? json_pack("{s:s}", "uri", uri) : NULL);
        peer->back->send(peer->back, message);
        json_decref(message);
    }
}

static void tell(const struct mcp_listener *listener, const char *method, const char *uri)
{
    struct mcp_call *call = listener->call;
    json_t *params = uri ? json_pack("{s:s}", "uri", uri) : json_object();
    json_t *message = message_notification(method, marked(call->id, params));
    call->stream->send(call->stream, message);
    json_decref(message);
}

void mcp_tools_changed(struct mcp *mcp)
{
    static const char method[] = "notifications/tools/list_changed";
    tell_peers(mcp, method, NULL, NULL);
    for (struct mcp_listener *at = mcp->listeners; at; at = at->next) {
        if (at->tools)
            tell(at, method, NULL);
    }
}

void mcp_prompts_changed(struct mcp *mcp)
{
    static const char method[] = "notifications/prompts/list_changed";
    tell_peers(mcp, method, NULL, NULL);
    for (struct mcp_listener *at = mcp->listeners; at; at = at->next) {
        if (at->prompts)
            tell(at, method, NULL);
    }
}

void mcp_resources_changed(struct mcp *mcp, const char *scope)
{
    static const char method[] = "notifications/resources/list_changed";
    tell_peers(mcp, method, scope, NULL);
    for (struct mcp_listener *at = mcp->listeners; at; at = at->next) {
        if (at->resources && concerns(scope, at->call->scope))
            tell(at, method, NULL);
    }
}

void mcp_resource_changed(struct mcp *mcp, const char *scope, const char *uri)
{
    static const char method[] = "notifications/resources/updated";
    tell_peers(mcp, method, scope, uri);
    for (struct mcp_listener *at = mcp->listeners; at; at = at->next) {
        if (strv_contains(at->watched, uri) && concerns(scope, at->call->scope))
            tell(at, method, uri);
    }
}
