/* Which headers pass the proxy, in both directions, and which are added. */
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "server/http/handshake.h"
#include "server/proxy.h"

#define SANDBOXED "sandbox allow-scripts allow-forms allow-popups allow-modals allow-downloads"

static bool is_among(const char *name, const char *const *names)
{
    while (*names && strcasecmp(*names, name) != 0)
        names++;
    return *names != NULL;
}

/* For one connection only. Framing is among them: each side has its own. */
static bool is_hop_by_hop(const char *name)
{
    static const char *const names[] = {
        "Connection", "Keep-Alive",        "Proxy-Connection",    "Proxy-Authenticate",
        "TE",         "Trailer",           "Proxy-Authorization", "Upgrade",
        "Expect",     "Transfer-Encoding", "Content-Length",      NULL};
    return is_among(name, names);
}

/* ---- requests ------------------------------------------------------------------------------ */

static bool is_replaced(const char *name)
{
    static const char *const names[] = {"Host", "Forwarded", NULL};
    return is_among(name, names) || strncasecmp(name, "X-Forwarded-", 12) == 0;
}

/* The key is the server's business; Authorization is the program's where the key came elsewhere. */
static bool is_key(const struct http_request *request, const char *name)
{
    const struct server *server = request->server->context;
    return server->secret && strcasecmp(name, "Authorization") == 0 &&
           !http_header(request, "Proxy-Authorization");
}

/* Protocols that the client offers, without the key among them. */
static void append_protocols(struct buf *out, const char *offered)
{
    const char *between = "Sec-WebSocket-Protocol: ";
    for (const char *at = offered; *at; at += strcspn(at, ",")) {
        at += strspn(at, ", \t");
        size_t length = strcspn(at, ", \t");
        if (length == 0 || strncmp(at, "msb_", 4) == 0)
            continue;
        buf_append_text(out, between);
        buf_append(out, at, length);
        between = ", ";
    }
    if (between[0] == ',')
        buf_append_text(out, "\r\n");
}

static void append_own(struct buf *out, const struct http_request *request,
                       const struct proxy_target *target)
{
    const char *host = http_header(request, "Host");
    const char *length = http_header(request, "Content-Length");
    char peer[64];
    http_peer(request, peer, sizeof peer);
    if (target->by_host && host)
        buf_printf(out, "Host: %s\r\n", host);
    else
        buf_printf(out, "Host: localhost:%u\r\n", target->port);
    if (host)
        buf_printf(out, "X-Forwarded-Host: %s\r\n", host);
    buf_printf(out, "X-Forwarded-For: %s\r\nX-Forwarded-Proto: %s\r\n", peer,
               request->server->tls ? "https" : "http");
    if (!target->by_host)
        buf_printf(out, "X-Forwarded-Prefix: %.*s\r\n",
                   (int)(http_rest(request) - request->path - 1), request->path);
    if (target->is_upgrade)
        buf_printf(out, "Connection: Upgrade\r\nUpgrade: %s\r\n", http_header(request, "Upgrade"));
    else
        buf_append_text(out, "Connection: close\r\n");
    if (target->is_chunked)
        buf_append_text(out, "Transfer-Encoding: chunked\r\n");
    else if (length)
        buf_printf(out, "Content-Length: %s\r\n", length);
}

void proxy_request_head(struct buf *out, struct http_request *request,
                        const struct proxy_target *target)
{
    buf_printf(out, "%s /%s%s%s HTTP/1.1\r\n", request->method, http_rest(request),
               request->query[0] ? "?" : "", request->query);
    append_own(out, request, target);
    for (size_t i = 0; i < request->header_count; i++) {
        const struct http_header *header = &request->headers[i];
        if (is_hop_by_hop(header->name) || is_replaced(header->name) ||
            header_lists(request, "Connection", header->name) || is_key(request, header->name) ||
            (!target->by_host && strcasecmp(header->name, "Cookie") == 0))
            continue;
        if (strcasecmp(header->name, "Sec-WebSocket-Protocol") == 0)
            append_protocols(out, header->value);
        else
            buf_printf(out, "%s: %s\r\n", header->name, header->value);
    }
    buf_append_text(out, "\r\n");
}

/* ---- answers ------------------------------------------------------------------------------- */

/* Ours, or none of the client's. */
static bool is_kept_back(const char *name)
{
    static const char *const names[] = {"Date", "Access-Control-Allow-Origin", NULL};
    return is_hop_by_hop(name) || is_among(name, names);
}

/* The root of the program inside is not ours. */
static void add_location(struct http_request *request, const char *location)
{
    cleanup_free char *moved =
        xasprintf("%.*s%s", (int)(http_rest(request) - request->path - 1), request->path, location);
    http_add_header(request, "Location", moved);
}

void proxy_answer_headers(struct http_request *request, const struct response *response,
                          const struct proxy_target *target)
{
    const char *named = response_header(response, "Connection");
    if (!target->by_host)
        http_add_header(request, "Content-Security-Policy", SANDBOXED);
    for (size_t i = 0; i < response->header_count; i++) {
        const char *name = response->headers[i].name, *value = response->headers[i].value;
        if (is_kept_back(name) || (named && list_has(named, name)) ||
            (!target->by_host && strcasecmp(name, "Set-Cookie") == 0))
            continue;
        if (!target->by_host && strcasecmp(name, "Location") == 0 && value[0] == '/' &&
            value[1] != '/')
            add_location(request, value);
        else
            http_add_header(request, name, value);
    }
}
