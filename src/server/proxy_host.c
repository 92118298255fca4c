/* Names of ports: PORT-NAME.localhost and PORT-NAME.NAMESPACE.localhost. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "sandbox/config.h"
#include "server/proxy.h"

#define TOP ".localhost"

struct name {
    char *port, *name, *namespace; /* of one text, which port is the front of */
};

/* False when it is no such name; the text is for free() otherwise. */
static bool take_apart(const char *host, struct name *name)
{
    size_t length = strcspn(host, ":");
    if (length <= strlen(TOP) || strncasecmp(host + length - strlen(TOP), TOP, strlen(TOP)) != 0)
        return false;
    cleanup_free char *text = xstrndup(host, length - strlen(TOP));
    char *dash = strchr(text, '-');
    char *dot = strrchr(text, '.');
    if (!dash || dash == text || strspn(text, "0123456789") != (size_t)(dash - text))
        return false;
    *dash = '\0';
    if (dot)
        *dot = '\0';
    *name = (struct name){.port = text, .name = dash + 1, .namespace = dot ? dot + 1 : NULL};
    text = NULL;
    return true;
}

bool proxy_is_host(const char *host)
{
    struct name name;
    if (!take_apart(host, &name))
        return false;
    free(name.port);
    return true;
}

void proxy_rewrite(struct http_request *request)
{
    struct name name;
    const char *host = http_header(request, "Host");
    if (!host || !take_apart(host, &name))
        return;
    http_rewrite(request, xasprintf("/proxy/%s/%s/%s%s",
                                    name.namespace ? name.namespace : SANDBOX_DEFAULT_NAMESPACE,
                                    name.name, name.port, request->path));
    free(name.port);
}
