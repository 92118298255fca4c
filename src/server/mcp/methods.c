/* The methods of the protocol, of both eras. */
#include <stdio.h>
#include <string.h>

#include "server/mcp/internal.h"

static const char *const legacy_versions[] = {MCP_NEWEST_LEGACY, "2025-06-18", "2025-03-26",
                                              "2024-11-05"};

const json_t *offer_definition(const struct mcp *mcp, const char *list, const char *name)
{
    size_t i;
    json_t *definition;
    json_array_foreach(json_object_get(mcp->definitions, list), i, definition)
    {
        const char *theirs = message_member(definition, "name");
        if (theirs && strcmp(theirs, name) == 0)
            return definition;
    }
    return NULL;
}

static json_t *capabilities(const struct mcp_call *call)
{
    const struct mcp_offer *offer = call->mcp->offer;
    json_t *all = json_pack("{s:{s:b}, s:{}}", "tools", "listChanged", 1, "completions");
    if (!call->is_modern)
        json_object_set_new(all, "logging", json_object());
    if (offer->prompts)
        json_object_set_new(all, "prompts", json_pack("{s:b}", "listChanged", 1));
    if (offer->list_resources)
        json_object_set_new(
            all, "resources",
            json_pack("{s:b, s:b}", "listChanged", 1, "subscribe", offer->can_watch != NULL));
    return all;
}

static json_t *server_info(const struct mcp_offer *offer)
{
    return json_pack("{s:s, s:s, s:s}", "name", offer->name, "title", offer->title, "version",
                     offer->version);
}

static void initialize(struct mcp_call *call)
{
    const struct mcp_offer *offer = call->mcp->offer;
    const char *wanted = message_member(call->params, "protocolVersion");
    json_t *abilities = json_object_get(call->params, "capabilities");
    if (!wanted) {
        mcp_fail(call, MCP_INVALID_PARAMS, NULL, "\"protocolVersion\" must be a text");
        return;
    }
    const char *version = legacy_versions[0];
    for (size_t i = 0; i < sizeof legacy_versions / sizeof legacy_versions[0]; i++) {
        if (strcmp(wanted, legacy_versions[i]) == 0)
            version = wanted;
    }
    struct mcp_peer *peer = call->peer;
    snprintf(peer->version, sizeof peer->version, "%s", version);
    if (json_is_object(abilities)) {
        json_decref(peer->abilities);
        peer->abilities = json_incref(abilities);
    }
    mcp_succeed(call, json_pack("{s:s, s:o, s:o, s:s}", "protocolVersion", version, "capabilities",
                                capabilities(call), "serverInfo", server_info(offer),
                                "instructions", offer->instructions));
}

static void discover(struct mcp_call *call)
{
    const struct mcp_offer *offer = call->mcp->offer;
    call->caching = "public";
    mcp_succeed(call, json_pack("{s:[s], s:o, s:o, s:s}", "supportedVersions", MCP_MODERN,
                                "capabilities", capabilities(call), "serverInfo",
                                server_info(offer), "instructions", offer->instructions));
}

static void ping(struct mcp_call *call)
{
    mcp_succeed(call, json_object());
}

static void set_level(struct mcp_call *call)
{
    int level = level_of(message_member(call->params, "level"));
    if (level < 0) {
        mcp_fail(call, MCP_INVALID_PARAMS, NULL,
                 "\"level\" must be one of debug, info, notice, "
                 "warning, error, critical, alert, emergency");
        return;
    }
    call->peer->level = (enum mcp_level)level;
    mcp_succeed(call, json_object());
}

/* Lists of definitions have one page. */
static void list_definitions(struct mcp_call *call, const char *list)
{
    call->caching = "public";
    if (json_object_get(call->params, "cursor")) {
        mcp_fail(call, MCP_INVALID_PARAMS, NULL, "there is no such page");
        return;
    }
    json_t *items = json_object_get(call->mcp->definitions, list);
    mcp_succeed_page(call, list, items ? json_incref(items) : json_array(), NULL);
}

static void list_tools(struct mcp_call *call)
{
    list_definitions(call, "tools");
}

static void list_prompts(struct mcp_call *call)
{
    list_definitions(call, "prompts");
}

static void list_templates(struct mcp_call *call)
{
    list_definitions(call, "resourceTemplates");
}

/* The arguments of a call, made an object where there are none; NULL: the call has failed. */
static const json_t *arguments_of(struct mcp_call *call)
{
    json_t *arguments = json_object_get(call->params, "arguments");
    if (!arguments) {
        arguments = json_object();
        json_object_set_new(json_object_get(call->message, "params"), "arguments", arguments);
    }
    if (json_is_object(arguments))
        return arguments;
    mcp_fail(call, MCP_INVALID_PARAMS, NULL, "\"arguments\" must be an object");
    return NULL;
}

static void call_tool(struct mcp_call *call)
{
    const char *name = message_member(call->params, "name");
    const struct mcp_tool *tool = call->mcp->offer->tools;
    while (tool->name && (!name || strcmp(tool->name, name) != 0))
        tool++;
    if (!tool->name) {
        mcp_fail(call, MCP_INVALID_PARAMS, NULL, "there is no tool %.100s; tools/list lists them",
                 name ? name : "without a name");
        return;
    }
    call->tool = tool;
    const json_t *arguments = arguments_of(call);
    if (arguments)
        tool->call(call, arguments);
}

static void get_prompt(struct mcp_call *call)
{
    const char *name = message_member(call->params, "name");
    const struct mcp_prompt *prompt = call->mcp->offer->prompts;
    while (prompt && prompt->name && (!name || strcmp(prompt->name, name) != 0))
        prompt++;
    if (!prompt || !prompt->name) {
        mcp_fail(call, MCP_INVALID_PARAMS, NULL,
                 "there is no prompt %.100s; prompts/list lists them",
                 name ? name : "without a name");
        return;
    }
    const json_t *arguments = arguments_of(call);
    if (arguments)
        prompt->get(call, arguments);
}

static void list_resources(struct mcp_call *call)
{
    call->caching = "private";
    if (call->mcp->offer->list_resources)
        call->mcp->offer->list_resources(call, message_member(call->params, "cursor"));
    else
        mcp_succeed_page(call, "resources", json_array(), NULL);
}

static void read_resource(struct mcp_call *call)
{
    const char *uri = message_member(call->params, "uri");
    call->caching = "private";
    if (!uri)
        mcp_fail(call, MCP_INVALID_PARAMS, NULL, "\"uri\" must be a text");
    else if (call->mcp->offer->read_resource)
        call->mcp->offer->read_resource(call, uri);
    else
        mcp_fail_resource(call, uri);
}

static void subscribe(struct mcp_call *call)
{
    subscription_set(call, true);
}

static void unsubscribe(struct mcp_call *call)
{
    subscription_set(call, false);
}

static void complete(struct mcp_call *call)
{
    const json_t *reference = json_object_get(call->params, "ref");
    const json_t *argument = json_object_get(call->params, "argument");
    const char *kind = message_member(reference, "type");
    const char *about =
        message_member(reference, kind && strcmp(kind, "ref/prompt") == 0 ? "name" : "uri");
    const char *name = message_member(argument, "name");
    const char *value = message_member(argument, "value");
    if (!about || !name || !value)
        mcp_fail(call, MCP_INVALID_PARAMS, NULL,
                 "\"ref\" and \"argument\" must say what to complete");
    else if (call->mcp->offer->complete)
        call->mcp->offer->complete(call, about, name, value);
    else
        mcp_complete(call, json_array());
}

enum { LEGACY = 1, MODERN = 2, BOTH = LEGACY | MODERN };

static const struct {
    const char *name;
    method_function *answer;
    int eras;
} methods[] = {
    {"initialize", initialize, LEGACY},
    {"ping", ping, LEGACY},
    {"logging/setLevel", set_level, LEGACY},
    {"resources/subscribe", subscribe, LEGACY},
    {"resources/unsubscribe", unsubscribe, LEGACY},
    {"server/discover", discover, MODERN},
    {"subscriptions/listen", subscription_listen, MODERN},
    {"tools/list", list_tools, BOTH},
    {"tools/call", call_tool, BOTH},
    {"prompts/list", list_prompts, BOTH},
    {"prompts/get", get_prompt, BOTH},
    {"resources/list", list_resources, BOTH},
    {"resources/templates/list", list_templates, BOTH},
    {"resources/read", read_resource, BOTH},
    {"completion/complete", complete, BOTH},
};

method_function *method_find(const char *name, bool is_modern)
{
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++) {
        if (strcmp(methods[i].name, name) == 0 && methods[i].eras & (is_modern ? MODERN : LEGACY))
            return methods[i].answer;
    }
    return NULL;
}
