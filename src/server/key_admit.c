/* Everything but the health check needs a key, unless the server asks for none. */
#include <string.h>

#include "base/mem.h"
#include "server/context.h"
#include "server/keys.h"
#include "server/rpc.h"
#include "server/session_output.h"

/* Browsers cannot add headers to a WebSocket, but offer protocols: the key may be one. For free().
 */
static char *offered_key(const struct http_request *request)
{
    const char *offered = http_header(request, "Sec-WebSocket-Protocol");
    const char *key = offered ? strstr(offered, "msb_") : NULL;
    return key ? xstrndup(key, strcspn(key, ", \t")) : NULL;
}

/* Clients of JSON-RPC look for errors in the answer, all others at its status. */
static bool speaks_rpc(const struct http_request *request)
{
    static const char *const paths[] = {"/api/v1/rpc", "/api/v1/sandbox/start",
                                        "/api/v1/sandbox/stop", "/api/v1/sandbox/command/run"};
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        if (strcmp(paths[i], request->path) == 0)
            return true;
    }
    return false;
}

bool key_admit(struct http_request *request)
{
    const struct server *server = request->server->context;
    struct key_grant grant = {.namespace = KEY_ALL_NAMESPACES};
    struct error err;
    const char *header = http_header(request, "Proxy-Authorization");
    if (!header)
        header = http_header(request, "Authorization");
    cleanup_free char *offered = header ? NULL : offered_key(request);
    if (offered)
        header = offered;
    int result = 0;
    if (server->secret && strcmp(request->path, "/api/v1/health") != 0 &&
        !artifact_is_signed(request, grant.namespace))
        result = keys_check(server->secret, header ? header : "", &grant, &err);
    memcpy(request->scope, grant.namespace, sizeof request->scope);
    if (result == 0)
        return true;
    if (speaks_rpc(request)) {
        rpc_refuse(request, RPC_AUTHENTICATION, &err);
    } else {
        http_add_header(request, "WWW-Authenticate",
                        header ? "Bearer error=\"invalid_token\"" : "Bearer");
        http_answer_error(request, 401, &err);
    }
    return false;
}
