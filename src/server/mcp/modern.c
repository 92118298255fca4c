/*
 * A modern request says by itself what it needs, in `_meta`, and over HTTP once more in headers,
 * so that those on the way need not read its body. Both must agree.
 */
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "server/http/http.h"
#include "server/mcp/internal.h"

#define ENCODED "=?base64?"

static bool refuse(const struct mcp_incoming *incoming, int code, json_t *data, const char *text)
{
    json_t *message = message_error(json_object_get(incoming->message, "id"), code, text, data);
    incoming->stream->finish(incoming->stream, message, 400);
    json_decref(message);
    return false;
}

static bool mismatch(const struct mcp_incoming *incoming, const char *header)
{
    cleanup_free char *text = xasprintf("the header %s must say what the body says", header);
    return refuse(incoming, MCP_HEADER_MISMATCH, NULL, text);
}

/* A header's value without the white space around it, decoded if it is encoded; NULL when that is
 * wrong. For free(). */
static char *decode(const char *value)
{
    value += strspn(value, " \t");
    size_t length = strlen(value);
    while (length > 0 && strchr(" \t", value[length - 1]))
        length--;
    size_t prefix = sizeof ENCODED - 1;
    if (length < prefix + 2 || strncmp(value, ENCODED, prefix) != 0 ||
        strncmp(value + length - 2, "?=", 2) != 0)
        return xstrndup(value, length);
    size_t encoded = length - prefix - 2;
    if (encoded % 4 != 0)
        return NULL;
    cleanup_free unsigned char *bytes = xmalloc(encoded + 1);
    int count = EVP_DecodeBlock(bytes, (const unsigned char *)value + prefix, (int)encoded);
    if (count < 0)
        return NULL;
    /* The decoder counts what is padded. */
    for (size_t i = encoded; i > 0 && value[prefix + i - 1] == '=' && encoded - i < 2; i--)
        count--;
    return memchr(bytes, '\0', (size_t)count) ? NULL : xstrndup((char *)bytes, (size_t)count);
}

static bool header_is(const struct http_request *request, const char *name, const char *wanted)
{
    const char *value = http_header(request, name);
    cleanup_free char *text = value ? decode(value) : NULL;
    return text && strcmp(text, wanted) == 0;
}

static bool check_meta(const struct mcp_incoming *incoming)
{
    const json_t *meta = json_object_get(json_object_get(incoming->message, "params"), "_meta");
    if (!message_member(meta, MCP_META "protocolVersion"))
        return refuse(incoming, MCP_INVALID_PARAMS, NULL,
                      "_meta must have " MCP_META "protocolVersion");
    if (!json_is_object(json_object_get(meta, MCP_META "clientCapabilities")))
        return refuse(incoming, MCP_INVALID_PARAMS, NULL,
                      "_meta must have " MCP_META "clientCapabilities");
    return true;
}

static bool check_version(const struct mcp_incoming *incoming)
{
    const json_t *meta = json_object_get(json_object_get(incoming->message, "params"), "_meta");
    const char *version = message_member(meta, MCP_META "protocolVersion");
    if (incoming->request && !header_is(incoming->request, "MCP-Protocol-Version", version))
        return mismatch(incoming, "MCP-Protocol-Version");
    if (strcmp(version, MCP_MODERN) == 0)
        return true;
    return refuse(incoming, MCP_UNKNOWN_VERSION,
                  json_pack("{s:[s], s:s}", "supported", MCP_MODERN, "requested", version),
                  "this version of the protocol is not spoken here");
}

/* What a request is about, for those methods that are about something. */
static const char *subject_of(const struct mcp_incoming *incoming)
{
    const char *method = message_member(incoming->message, "method");
    const json_t *params = json_object_get(incoming->message, "params");
    if (strcmp(method, "tools/call") == 0 || strcmp(method, "prompts/get") == 0)
        return message_member(params, "name");
    return strcmp(method, "resources/read") == 0 ? message_member(params, "uri") : NULL;
}

/* The text of an argument as a header has it; NULL: it has none. For free(). */
static char *argument_text(const json_t *value)
{
    if (json_is_string(value))
        return xstrdup(json_string_value(value));
    if (json_is_boolean(value))
        return xstrdup(json_is_true(value) ? "true" : "false");
    return json_is_number(value) ? json_dumps(value, JSON_ENCODE_ANY) : NULL;
}

static bool check_arguments(const struct mcp_incoming *incoming, const char *tool)
{
    const json_t *params = json_object_get(incoming->message, "params");
    const json_t *schema =
        json_object_get(offer_definition(incoming->mcp, "tools", tool), "inputSchema");
    const char *name;
    json_t *property;
    json_object_foreach(json_object_get(schema, "properties"), name, property)
    {
        const char *suffix = message_member(property, "x-mcp-header");
        const json_t *value = json_object_get(json_object_get(params, "arguments"), name);
        cleanup_free char *text = suffix ? argument_text(value) : NULL;
        if (!text)
            continue;
        cleanup_free char *header = xasprintf("Mcp-Param-%s", suffix);
        if (!header_is(incoming->request, header, text))
            return mismatch(incoming, header);
    }
    return true;
}

static bool check_headers(const struct mcp_incoming *incoming)
{
    const char *method = message_member(incoming->message, "method");
    const char *subject = subject_of(incoming);
    if (!header_is(incoming->request, "Mcp-Method", method))
        return mismatch(incoming, "Mcp-Method");
    if (subject && !header_is(incoming->request, "Mcp-Name", subject))
        return mismatch(incoming, "Mcp-Name");
    return strcmp(method, "tools/call") != 0 || !subject || check_arguments(incoming, subject);
}

bool modern_admit(const struct mcp_incoming *incoming)
{
    return check_meta(incoming) && check_version(incoming) &&
           (!incoming->request || check_headers(incoming));
}
