/* JSON-RPC messages: their kinds, and how they are made. */
#include <string.h>

#include "server/mcp/internal.h"

json_t *message_result(const json_t *id, json_t *result)
{
    return json_pack("{s:s, s:O, s:o}", "jsonrpc", "2.0", "id", id, "result", result);
}

json_t *message_error(const json_t *id, int code, const char *text, json_t *data)
{
    json_t *message = json_pack("{s:s, s:O*, s:{s:i, s:s}}", "jsonrpc", "2.0", "id", id, "error",
                                "code", code, "message", text);
    if (data)
        json_object_set_new(json_object_get(message, "error"), "data", data);
    return message;
}

json_t *message_notification(const char *method, json_t *params)
{
    json_t *message = json_pack("{s:s, s:s}", "jsonrpc", "2.0", "method", method);
    if (params)
        json_object_set_new(message, "params", params);
    return message;
}

char *message_text(const json_t *message)
{
    return json_dumps(message, JSON_COMPACT);
}

static bool is_envelope(const json_t *message)
{
    const char *version = message_member(message, "jsonrpc");
    return version && strcmp(version, "2.0") == 0;
}

static bool is_id(const json_t *id)
{
    return json_is_string(id) || json_is_integer(id);
}

bool message_is_request(const json_t *message)
{
    const json_t *params = json_object_get(message, "params");
    return is_envelope(message) && message_member(message, "method") &&
           is_id(json_object_get(message, "id")) && (!params || json_is_object(params));
}

bool message_is_response(const json_t *message)
{
    return is_envelope(message) && !json_object_get(message, "method") &&
           is_id(json_object_get(message, "id")) &&
           (json_object_get(message, "result") || json_object_get(message, "error"));
}

bool message_is_notification(const json_t *message)
{
    return is_envelope(message) && message_member(message, "method") &&
           !json_object_get(message, "id");
}

const char *message_member(const json_t *object, const char *name)
{
    return json_string_value(json_object_get(object, name));
}

bool message_is_modern(const json_t *message, const char *version_header)
{
    static const char *const methods[] = {"server/discover", "subscriptions/listen"};
    const char *method = message_member(message, "method");
    const json_t *meta = json_object_get(json_object_get(message, "params"), "_meta");
    if (version_header && strcmp(version_header, MCP_MODERN) >= 0)
        return true;
    if (json_object_get(meta, MCP_META "protocolVersion"))
        return true;
    for (size_t i = 0; method && i < sizeof methods / sizeof methods[0]; i++) {
        if (strcmp(method, methods[i]) == 0)
            return true;
    }
    return false;
}

int level_of(const char *name)
{
    static const char *const names[] = {"debug", "info",     "notice", "warning",
                                        "error", "critical", "alert",  "emergency"};
    for (int level = 0; name && level < (int)(sizeof names / sizeof names[0]); level++) {
        if (strcmp(names[level], name) == 0)
            return level;
    }
    return -1;
}
