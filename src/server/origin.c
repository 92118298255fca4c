/*
 * A web page can make its visitor's browser send requests to 127.0.0.1, by name or by a name of its
 * own that resolves to it. Browsers tell the page in Origin and the name in Host: both must be
 * ours.
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "server/context.h"
#include "server/proxy.h"

bool origin_is_loopback(const char *host)
{
    struct sockaddr_in v4;
    return strcasecmp(host, "localhost") == 0 || strcmp(host, "::1") == 0 ||
           (uv_ip4_addr(host, 0, &v4) == 0 && strncmp(host, "127.", 4) == 0);
}

/* "name:port" or "[address]:port" without the port; for free(). */
static char *host_of(const char *authority)
{
    if (authority[0] == '[')
        return xstrndup(authority + 1, strcspn(authority + 1, "]"));
    return xstrndup(authority, strcspn(authority, ":/"));
}

static bool is_own_origin(const char *origin, const char *host)
{
    const char *authority = strstr(origin, "://");
    if (!authority)
        return false;
    authority += 3;
    cleanup_free char *name = host_of(authority);
    return origin_is_loopback(name) || (host && strcasecmp(authority, host) == 0);
}

static void refuse(struct http_request *request, const char *what, const char *hint)
{
    struct error err;
    error_set(&err, ERROR_DENIED, "%s", what);
    error_hint(&err, "%s", hint);
    http_answer_error(request, 403, &err);
}

static void answer_preflight(struct http_request *request)
{
    http_add_header(request, "Access-Control-Allow-Methods", "GET, HEAD, POST, PUT, PATCH, DELETE");
    http_add_header(request, "Access-Control-Allow-Headers",
                    "authorization, proxy-authorization, accept, content-type, range, if-range, "
                    "if-none-match");
    http_add_header(request, "Access-Control-Max-Age", "600");
    http_answer(request, 204, NULL, NULL, 0);
}

bool origin_admit(struct http_request *request)
{
    const struct server *server = request->server->context;
    const char *host = http_header(request, "Host");
    const char *origin = http_header(request, "Origin");
    cleanup_free char *name = host_of(host ? host : "");
    if (server->is_loopback && host && !origin_is_loopback(name) && !proxy_is_host(host)) {
        refuse(request, "this server answers to localhost only, not to the name in Host",
               "use http://127.0.0.1 with the server's port");
        return false;
    }
    if (origin && (server->is_loopback || server->options->dev) && !is_own_origin(origin, host)) {
        refuse(request, "this server takes no requests from web pages of others",
               "serve the page from localhost");
        return false;
    }
    if (origin) {
        http_add_header(request, "Access-Control-Allow-Origin", origin);
        http_add_header(request, "Access-Control-Expose-Headers",
                        "ETag, Content-Range, Content-Disposition, X-Request-Id");
        http_add_header(request, "Vary", "Origin");
    }
    if (strcmp(request->method, "OPTIONS") != 0 || !origin ||
        !http_header(request, "Access-Control-Request-Method"))
        return true;
    answer_preflight(request);
    return false;
}
