/* What becomes of bytes that arrive: heads, bodies, requests for handlers, refusals. */
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "server/http/internal.h"

static uint64_t now_of(const struct http_connection *connection)
{
    return uv_now(connection->server->loop);
}

/* Refused: whatever else the client sends cannot be understood. */
static void refuse(struct http_connection *connection, int status, const struct error *err)
{
    if (!connection->request)
        request_identify(request_new(connection));
    connection->request->keep_alive = false;
    http_answer_error(connection->request, status, err);
}

static const struct http_route *find_route(const struct http_request *request, bool *is_known)
{
    const char *method = request->is_head ? "GET" : request->method;
    *is_known = false;
    for (const struct http_route *route = request->server->routes; route->path; route++) {
        if (strcmp(route->path, request->path) != 0)
            continue;
        *is_known = true;
        if (strcmp(route->method, method) == 0)
            return route;
    }
    return NULL;
}

static void answer_no_route(struct http_request *request, bool is_known)
{
    struct error err;
    if (is_known) {
        for (const struct http_route *route = request->server->routes; route->path; route++) {
            if (strcmp(route->path, request->path) == 0)
                http_add_header(request, "Allow", route->method);
        }
        error_set(&err, ERROR_INVALID, "this path does not take %.20s", request->method);
    } else {
        error_set(&err, ERROR_NOT_FOUND, "there is nothing at this path");
        error_hint(&err, "the API is at /api/v1/rpc");
    }
    http_answer_error(request, is_known ? 405 : 404, &err);
}

/* What can be decided before the body is there. False: the request is answered. */
static bool admit(struct http_connection *connection, struct http_request *request)
{
    struct error err;
    bool is_known, has_body = connection->phase == PHASE_BODY;
    bool keep_alive = request->keep_alive;
    /* With an answer before its body, the connection cannot go on. */
    request->keep_alive = keep_alive && !has_body;
    if (request->server->admit && !request->server->admit(request))
        return false;
    request->route = find_route(request, &is_known);
    if (!request->route) {
        answer_no_route(request, is_known);
        return false;
    }
    uint64_t length = connection->parser.content_length;
    if (has_body && length != UINT64_MAX && length > request->route->body_max) {
        error_set(&err, ERROR_LIMIT, "the body is longer than the %zu bytes that this path takes",
                  request->route->body_max);
        http_answer_error(request, 413, &err);
        return false;
    }
    request->keep_alive = keep_alive;
    return true;
}

static void expect_body(struct http_connection *connection, const struct http_request *request)
{
    const char *expect = http_header(request, "Expect");
    connection->deadline = now_of(connection) + connection->server->limits.body_ms;
    if (!expect || strcasecmp(expect, "100-continue") != 0 || request->is_old)
        return;
    buf_append_text(&connection->writer.out, "HTTP/1.1 100 Continue\r\n\r\n");
    connection_flush(connection);
}

static void hand_over(struct http_connection *connection)
{
    connection->deadline = 0;
    connection->request->received = connection->received;
    connection->request->route->handle(connection->request);
}

static size_t feed_head(struct http_connection *connection, const uint8_t *bytes, size_t length)
{
    struct error err;
    if (length >= 2 && memcmp(bytes, "\r\n", 2) == 0)
        return 2; /* an empty line before a request is no sin */
    if (connection->began == 0) {
        connection->began = now_of(connection);
        connection->deadline = connection->began + connection->server->limits.head_ms;
    }
    size_t head = parse_find_head(bytes, length, connection->searched);
    if (head > HTTP_HEAD_MAX || (head == 0 && length > HTTP_HEAD_MAX)) {
        error_set(&err, ERROR_LIMIT, "the head is longer than %d bytes", HTTP_HEAD_MAX);
        refuse(connection, 431, &err);
        return length;
    }
    connection->searched = head ? 0 : length;
    if (head == 0)
        return 0;
    int status = parse_head(connection, bytes, head, &err);
    if (status) {
        refuse(connection, status, &err);
        return length;
    }
    if (!admit(connection, connection->request))
        return head;
    if (connection->phase == PHASE_WORK)
        hand_over(connection);
    else
        expect_body(connection, connection->request);
    return head;
}

static size_t feed_body(struct http_connection *connection, const uint8_t *bytes, size_t length)
{
    struct error err;
    long used = parse_body(connection, bytes, length, &err);
    if (used < 0) {
        refuse(connection, (int)-used, &err);
        return length;
    }
    connection->deadline =
        connection->began + connection->server->limits.body_ms + connection->received / 10;
    if (connection->phase == PHASE_WORK)
        hand_over(connection);
    return (size_t)used;
}

/* How many of the bytes are dealt with; the rest has to wait. */
static size_t feed(struct http_connection *connection, const uint8_t *bytes, size_t length)
{
    size_t used = 0, step = 1;
    connection->feeding = true;
    while (step > 0 && used < length) {
        if (connection->phase == PHASE_HEAD &&
            buf_length(&connection->writer.out) > HTTP_WAITING_MAX)
            step = 0;
        else if (connection->phase == PHASE_HEAD)
            step = feed_head(connection, bytes + used, length - used);
        else if (connection->phase == PHASE_BODY)
            step = feed_body(connection, bytes + used, length - used);
        else
            step = connection->phase == PHASE_WORK ? 0 : length - used;
        used += step;
    }
    connection->feeding = false;
    return used;
}

void feed_waiting(struct http_connection *connection)
{
    struct buf *in = &connection->in;
    if (connection->feeding || buf_length(in) == 0)
        return;
    buf_consume(in, feed(connection, buf_data(in), buf_length(in)));
    if (buf_length(in) == 0)
        buf_free(in);
}

void feed_bytes(struct http_connection *connection, const uint8_t *bytes, size_t length)
{
    if (buf_length(&connection->in) > 0) {
        buf_append(&connection->in, bytes, length);
        feed_waiting(connection);
        return;
    }
    size_t used = feed(connection, bytes, length);
    if (used < length)
        buf_append(&connection->in, bytes + used, length - used);
}
