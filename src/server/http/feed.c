/* What becomes of bytes that arrive: heads, bodies, requests for handlers, refusals. */
#include <string.h>
#include <strings.h>

#include "server/http/internal.h"

static uint64_t now_of(const struct http_connection *connection)
{
    return uv_now(connection->server->loop);
}

void feed_refuse(struct http_connection *connection, int status, const struct error *err)
{
    if (!connection->request)
        request_identify(request_new(connection));
    connection->request->keep_alive = false;
    http_answer_error(connection->request, status, err);
}

/* What can be decided before the body is there. False: the request is answered. */
static bool admit(struct http_connection *connection, struct http_request *request)
{
    struct error err;
    if (request->server->admit && !request->server->admit(request))
        return false;
    int status = route_find(request, &err);
    uint64_t length = connection->parser.content_length;
    if (status == 0 && connection->phase == PHASE_BODY && length != UINT64_MAX &&
        length > request->body_max) {
        error_set(&err, ERROR_LIMIT, "the body is longer than the %llu bytes that this path takes",
                  (unsigned long long)request->body_max);
        status = 413;
    }
    if (status)
        http_answer_error(request, status, &err);
    return status == 0;
}

static void tell_to_continue(struct http_connection *connection, const struct http_request *request)
{
    const char *expect = http_header(request, "Expect");
    if (!expect || strcasecmp(expect, "100-continue") != 0 || request->is_old)
        return;
    buf_append_text(connection_out(connection), "HTTP/1.1 100 Continue\r\n\r\n");
    connection_flush(connection);
}

static void body_ended(struct http_connection *connection)
{
    struct http_request *request = connection->request;
    request->received = connection->received;
    connection->deadline = writer_is_empty(&connection->writer)
                               ? 0
                               : now_of(connection) + connection->server->limits.stall_ms;
    if (!is_streamed(request))
        request->route->handle(request);
    else if (request->on_body_end)
        request->on_body_end(request);
}

/* The handler may refuse the request: only then is the client told to send its body. */
static void head_ended(struct http_connection *connection, struct http_request *request)
{
    connection->deadline = now_of(connection) + connection->server->limits.body_ms;
    if (is_streamed(request))
        request->route->handle(request);
    if (connection->request != request)
        return;
    if (connection->phase == PHASE_WORK)
        body_ended(connection);
    else if (connection->phase == PHASE_BODY && !request->is_answering)
        tell_to_continue(connection, request);
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
        feed_refuse(connection, 431, &err);
        return length;
    }
    connection->searched = head ? 0 : length;
    if (head == 0)
        return 0;
    int status = parse_head(connection, bytes, head, &err);
    if (status) {
        feed_refuse(connection, status, &err);
        return length;
    }
    if (admit(connection, connection->request))
        head_ended(connection, connection->request);
    return head;
}

/* A streamed body that is broken: its handler is through with it, and perhaps has answered. */
static void break_body(struct http_connection *connection, int status, const struct error *err)
{
    struct http_request *request = connection->request;
    if (request->gone)
        request->gone(request);
    request->gone = NULL;
    if (request->is_answering)
        connection_close(connection);
    else
        feed_refuse(connection, status, err);
}

static size_t feed_body(struct http_connection *connection, const uint8_t *bytes, size_t length)
{
    struct error err;
    long used = parse_body(connection, bytes, length, &err);
    if (connection->phase != PHASE_BODY && connection->phase != PHASE_WORK)
        return length;
    if (used < 0) {
        break_body(connection, (int)-used, &err);
        return length;
    }
    connection->deadline =
        connection->began + connection->server->limits.body_ms + connection->received / 10;
    if (connection->phase == PHASE_WORK)
        body_ended(connection);
    return (size_t)used;
}

static size_t feed_pipe(struct http_connection *connection, const uint8_t *bytes, size_t length)
{
    struct http_request *request = connection->request;
    if (!request->on_body)
        return length;
    request->unconsumed += length;
    request->on_body(request, bytes, length);
    return length;
}

static bool has_to_wait(const struct http_connection *connection)
{
    switch (connection->phase) {
    case PHASE_HEAD:
        return buf_length(&connection->writer.out) > HTTP_WAITING_MAX;
    case PHASE_BODY:
    case PHASE_PIPE:
        return connection->request->unconsumed >= HTTP_WINDOW;
    default:
        return connection->phase == PHASE_WORK;
    }
}

/* How many of the bytes are dealt with; the rest has to wait. */
static size_t feed(struct http_connection *connection, const uint8_t *bytes, size_t length)
{
    size_t used = 0, step = 1;
    connection->feeding = true;
    while (step > 0 && used < length) {
        if (has_to_wait(connection))
            step = 0;
        else if (connection->phase == PHASE_HEAD)
            step = feed_head(connection, bytes + used, length - used);
        else if (connection->phase == PHASE_BODY)
            step = feed_body(connection, bytes + used, length - used);
        else if (connection->phase == PHASE_PIPE)
            step = feed_pipe(connection, bytes + used, length - used);
        else
            step = length - used;
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
