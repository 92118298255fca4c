/* What a request is from its head to its end: its headers, its id, its record. */
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/mem.h"
#include "server/http/internal.h"

struct http_request *request_new(struct http_connection *connection)
{
    struct http_request *request = xcalloc(1, sizeof *request);
    request->connection = connection;
    request->server = connection->server;
    request->began_us = clock_monotonic_us();
    connection->request = request;
    return request;
}

const char *http_header(const struct http_request *request, const char *name)
{
    for (size_t i = 0; i < request->header_count; i++) {
        if (strcasecmp(request->headers[i].name, name) == 0)
            return request->headers[i].value;
    }
    return NULL;
}

char *http_base(const struct http_request *request)
{
    static const char allowed[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.:[]";
    const char *host = http_header(request, "Host");
    if (!host || host[strspn(host, allowed)])
        return xstrdup("");
    return xasprintf("%s://%s", request->server->tls ? "https" : "http", host);
}

/* It goes into logs and headers. */
static bool is_sane(const char *id)
{
    static const char allowed[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.:";
    size_t length = strlen(id);
    return length > 0 && length <= HTTP_ID_MAX && strspn(id, allowed) == length;
}

static void write_hex(char *out, uint32_t number)
{
    for (int i = 7; i >= 0; i--, number >>= 4)
        out[i] = "0123456789abcdef"[number & 15];
}

void request_identify(struct http_request *request)
{
    struct http_server *server = request->server;
    const char *given = http_header(request, "X-Request-Id");
    if (given && is_sane(given)) {
        memcpy(request->id, given, strlen(given) + 1);
        return;
    }
    write_hex(request->id, server->id_prefix);
    write_hex(request->id + 8, ++server->id_count);
}

void request_free(struct http_request *request)
{
    if (request->server->over)
        request->server->over(request);
    buf_free(&request->body);
    buf_free(&request->added);
    for (size_t i = 0; i < request->parameter_count; i++)
        free(request->parameters[i].value);
    free(request->rewritten);
    free(request->head);
    free(request);
}
