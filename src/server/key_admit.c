/* Everything but the health check needs a key, unless the server asks for none. */
#include <string.h>

#include "server/context.h"
#include "server/keys.h"
#include "server/rpc.h"

bool key_admit(struct http_request *request)
{
    const struct server *server = request->server->context;
    struct key_grant grant = {.namespace = KEY_ALL_NAMESPACES};
    struct error err;
    const char *header = http_header(request, "Proxy-Authorization");
    if (!header)
        header = http_header(request, "Authorization");
    int result = 0;
    if (server->secret && strcmp(request->path, "/api/v1/health") != 0)
        result = keys_check(server->secret, header ? header : "", &grant, &err);
    memcpy(request->scope, grant.namespace, sizeof request->scope);
    if (result == 0)
        return true;
    rpc_refuse(request, RPC_AUTHENTICATION, &err);
    return false;
}
