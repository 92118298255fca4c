/* Everything the server answers, at a glance. */
#include "server/context.h"
#include "server/proxy.h"
#include "server/rest.h"
#include "server/rpc.h"
#include "server/tools/tools.h"

#define BODY_MAX (32u << 20)
/* A file of 50 MB in base64. */
#define MCP_BODY_MAX (72u << 20)

static void health(struct http_request *request)
{
    static const char text[] = "{\"message\":\"Service is healthy\"}";
    http_answer(request, 200, "application/json", text, sizeof text - 1);
}

const struct http_route server_routes[] = {
    {"GET", "/api/v1/health", health, 0},
    {"GET", "/api/v1/openrpc.json", openrpc_handle, 0},
    {"GET", "/metrics", metrics_handle, 0},
    {"POST", "/api/v1/rpc", rpc_handle, BODY_MAX},
    /* Unreleased versions of the SDKs send these. */
    {"POST", "/api/v1/sandbox/start", rpc_handle_alias, BODY_MAX},
    {"POST", "/api/v1/sandbox/stop", rpc_handle_alias, BODY_MAX},
    {"POST", "/api/v1/sandbox/command/run", rpc_handle_alias, BODY_MAX},
    /* A path that does not begin with a slash of its own is below the working folder. */
    {"GET", "/api/v1/sandbox/{namespace}/{name}/files/*", files_get, 0},
    {"PUT", "/api/v1/sandbox/{namespace}/{name}/files/*", files_put, HTTP_STREAMED},
    {"GET", "/api/v1/sandbox/{namespace}/{name}/terminal", terminal_open, 0},
    /* Also http://PORT-NAME.localhost. */
    {NULL, "/proxy/{namespace}/{name}/{port}/*", proxy_handle, HTTP_STREAMED},
    {NULL, "/proxy/{namespace}/{name}/{port}", proxy_redirect, 0},
    /* Sessions. */
    {"POST", "/api/v1/sessions/{session_id}/sandbox/start", session_rest_start, BODY_MAX},
    {"POST", "/api/v1/sessions/{session_id}/sandbox/stop", session_rest_stop, BODY_MAX},
    {"GET", "/api/v1/sessions/{session_id}/sandbox/status", session_rest_status, 0},
    {"POST", "/api/v1/sessions/{session_id}/sandbox/execute", session_rest_execute, BODY_MAX},
    {"POST", "/api/v1/sessions/{session_id}/sandbox/upload", session_rest_upload, HTTP_STREAMED},
    {"GET", "/api/v1/sessions/{session_id}/sandbox/download", session_rest_download, 0},
    {"GET", "/api/v1/sessions/{session_id}/sandbox/files", session_rest_files, 0},
    {"POST", "/api/v1/sessions/{session_id}/sandbox/install", session_rest_install, BODY_MAX},
    {"GET", "/api/v1/openapi.json", openapi_get, 0},
    {"GET", "/files/{session_id}", artifacts_get, 0},
    {"GET", "/files/{session_id}/*", artifacts_get, 0},
    /* The Model Context Protocol. */
    {"POST", "/mcp", tools_handle, MCP_BODY_MAX},
    {"GET", "/mcp", tools_handle, 0},
    {"DELETE", "/mcp", tools_handle, 0},
    {"POST", "/mcp/sessions", tools_handle, MCP_BODY_MAX},
    {"GET", "/mcp/sessions", tools_handle, 0},
    {"DELETE", "/mcp/sessions", tools_handle, 0},
    {0},
};
