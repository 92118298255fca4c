/* Hostile requests to the server: what is taken has plain lines and a body within its limit. */
#include <assert.h>
#include <string.h>

#include "server/http/internal.h"

#define BODY_MAX 4096

static const struct http_route routes[] = {
    {NULL, "/a/{one}/b/{two}", NULL, BODY_MAX},
    {NULL, "/a/{one}/*", NULL, BODY_MAX},
    {NULL, "*", NULL, BODY_MAX},
    {0},
};

static void check_text(const char *text)
{
    for (; *text; text++)
        assert((unsigned char)*text >= 0x20 || *text == '\t');
}

static void check_request(const struct http_request *request)
{
    assert(request->path[0] == '/' || strcmp(request->path, "*") == 0);
    check_text(request->method);
    check_text(request->path);
    check_text(request->query);
    assert(request->header_count <= HTTP_HEADERS_MAX);
    for (size_t i = 0; i < request->header_count; i++) {
        assert(request->headers[i].name[0] && !strpbrk(request->headers[i].name, " \t:"));
        check_text(request->headers[i].value);
    }
}

static void take_body(struct http_connection *connection, const uint8_t *data, size_t size)
{
    struct error err;
    while (connection->phase == PHASE_BODY && size > 0) {
        size_t piece = size < 7 ? size : 7;
        long used = parse_body(connection, data, piece, &err);
        assert(used <= (long)piece);
        if (used <= 0)
            break;
        data += used;
        size -= (size_t)used;
    }
    assert(buf_length(&connection->request->body) <= BODY_MAX);
}

/* Every path has a route here; what its parts stand for has no NUL and, but for the rest, no slash.
 */
static bool find_route(struct http_request *request)
{
    static struct http_server server = {.routes = routes};
    struct error err;
    request->server = &server;
    if (route_find(request, &err))
        return false;
    for (size_t i = 0; i < request->parameter_count; i++) {
        const struct http_parameter *parameter = &request->parameters[i];
        assert(strlen(parameter->value) <= parameter->raw_length);
        assert(parameter->name[0] == '*' || !strchr(parameter->value, '/'));
    }
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct http_server server;
    struct http_connection connection = {.server = &server};
    struct error err;
    size_t head = parse_find_head(data, size, 0);
    if (head == 0 || head > HTTP_HEAD_MAX)
        return 0;
    int status = parse_head(&connection, data, head, &err);
    if (status == 0) {
        check_request(connection.request);
        if (find_route(connection.request))
            take_body(&connection, data + head, size - head);
    } else {
        assert(status >= 400 && status < 600 && err.message[0]);
    }
    request_free(connection.request);
    return 0;
}
