/* The life of a connection: accepted, read from, written to, closed. */
#include "base/mem.h"
#include "server/http/internal.h"

#define LINGER_MS 2000
/* A client that vanished without a word is noticed after some minutes. */
#define KEEPALIVE_S 60

static void unlink_connection(struct http_connection *connection)
{
    struct http_server *server = connection->server;
    if (connection->previous)
        connection->previous->next = connection->next;
    else
        server->connections = connection->next;
    if (connection->next)
        connection->next->previous = connection->previous;
    server->connection_count--;
}

static void on_closed(uv_handle_t *handle)
{
    struct http_connection *connection = handle->data;
    struct http_server *server = connection->server;
    unlink_connection(connection);
    writer_free(&connection->writer);
    buf_free(&connection->in);
    buf_free(&connection->cipher);
    buf_free(&connection->plain);
    SSL_free(connection->tls);
    free(connection);
    if (server->connection_count == 0 && server->draining)
        http_drain(server);
}

void connection_close(struct http_connection *connection)
{
    if (connection->phase == PHASE_CLOSED)
        return;
    connection->phase = PHASE_CLOSED;
    struct http_request *request = steal_pointer(&connection->request);
    if (request && request->gone)
        request->gone(request);
    if (request) {
        request->was_left = true;
        request_free(request);
    }
    uv_close((uv_handle_t *)&connection->tcp, on_closed);
}

/* Closing with bytes unread would reset the connection and take the answer away from the client. */
static void on_shutdown(uv_shutdown_t *request, int status)
{
    struct http_connection *connection = request->data;
    if (status < 0)
        connection_close(connection);
}

static void linger(struct http_connection *connection)
{
    connection->phase = PHASE_LINGER;
    connection->deadline = uv_now(connection->server->loop) + LINGER_MS;
    connection->shutdown.data = connection;
    buf_free(&connection->in);
    if (connection->tls) {
        SSL_shutdown(connection->tls);
        writer_flush(&connection->writer);
    }
    if (uv_shutdown(&connection->shutdown, (uv_stream_t *)&connection->tcp, on_shutdown) < 0)
        connection->deadline = 1;
}

static void on_written(struct writer *writer, size_t length, int status)
{
    (void)length;
    struct http_connection *connection = writer->owner;
    struct http_request *request = connection->request;
    uint64_t stall = uv_now(connection->server->loop) + connection->server->limits.stall_ms;
    if (status < 0) {
        /* Not now: a handler may be at work with its request. The tick will close it. */
        connection->deadline = 1;
        return;
    }
    bool is_empty = writer_is_empty(writer);
    enum http_phase phase = connection->phase;
    if (phase == PHASE_LAST || phase == PHASE_WORK || phase == PHASE_PIPE)
        connection->deadline = is_empty ? 0 : stall;
    if (!is_empty || connection->sending)
        return;
    if (phase == PHASE_LAST)
        linger(connection);
    else if (phase == PHASE_HEAD)
        feed_waiting(connection);
    else if (request && request->is_answering && request->drained)
        request->drained(request);
}

void connection_flush(struct http_connection *connection)
{
    connection->sending = true;
    if (connection->tls)
        tls_encrypt(connection);
    writer_flush(&connection->writer);
    connection->sending = false;
    if (!writer_is_empty(&connection->writer) && connection->deadline == 0)
        connection->deadline =
            uv_now(connection->server->loop) + connection->server->limits.stall_ms;
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *out)
{
    (void)suggested;
    struct http_connection *connection = handle->data;
    *out = uv_buf_init(connection->server->read_buffer, sizeof connection->server->read_buffer);
}

static void refuse_plain(struct http_connection *connection)
{
    struct error err;
    error_set(&err, ERROR_INVALID, "this port speaks HTTPS, not HTTP");
    error_hint(&err, "begin the address with https://");
    feed_refuse(connection, 400, &err);
}

/* Reads on, or not, by how much waits. */
static void throttle(struct http_connection *connection);

static void on_read(uv_stream_t *stream, ssize_t got, const uv_buf_t *from)
{
    struct http_connection *connection = stream->data;
    if (got < 0) {
        connection_close(connection);
        return;
    }
    const uint8_t *bytes = (const uint8_t *)from->base;
    if (connection->server->tls && !connection->tls && connection->phase == PHASE_HEAD && got > 0 &&
        !tls_begin(connection, bytes[0]))
        refuse_plain(connection);
    if (connection->tls && connection->phase < PHASE_LAST)
        tls_take(connection, bytes, (size_t)got);
    else
        feed_bytes(connection, bytes, (size_t)got);
    throttle(connection);
}

static bool is_full(const struct http_connection *connection)
{
    const struct http_request *request = connection->request;
    return (request && request->unconsumed >= HTTP_WINDOW) ||
           (connection->phase == PHASE_WORK && buf_length(&connection->in) > HTTP_WAITING_MAX);
}

static uint64_t deadline_of(const struct http_connection *connection)
{
    const struct http_limits *limits = &connection->server->limits;
    if (connection->phase == PHASE_BODY)
        return connection->began + limits->body_ms + connection->received / 10;
    return writer_is_empty(&connection->writer)
               ? 0
               : uv_now(connection->server->loop) + limits->stall_ms;
}

/* The time that a handler takes is not the client's; a handler that takes nothing ends it too. */
static void throttle(struct http_connection *connection)
{
    const struct http_request *request = connection->request;
    uint64_t now = uv_now(connection->server->loop);
    if (connection->phase == PHASE_CLOSED || is_full(connection) == connection->is_full)
        return;
    connection->is_full = !connection->is_full;
    if (connection->is_full) {
        connection->full_at = now;
        if (request->unconsumed >= HTTP_WINDOW)
            connection->deadline = now + connection->server->limits.stall_ms;
        uv_read_stop((uv_stream_t *)&connection->tcp);
        return;
    }
    if (request) {
        connection->began += now - connection->full_at;
        connection->deadline = deadline_of(connection);
    }
    uv_read_start((uv_stream_t *)&connection->tcp, on_alloc, on_read);
}

void http_consumed(struct http_request *request, size_t length)
{
    struct http_connection *connection = request->connection;
    request->unconsumed -= length;
    if (request->unconsumed >= HTTP_WINDOW)
        return;
    feed_waiting(connection);
    throttle(connection);
}

void connection_end(struct http_connection *connection)
{
    connection->phase = PHASE_LAST;
    throttle(connection);
    if (writer_is_empty(&connection->writer))
        linger(connection);
}

void connection_next(struct http_connection *connection)
{
    struct http_server *server = connection->server;
    struct http_request *request = steal_pointer(&connection->request);
    bool keep_alive = request->keep_alive && !server->draining;
    request_free(request);
    connection->began = connection->searched = 0;
    if (!keep_alive) {
        connection_end(connection);
        return;
    }
    connection->phase = PHASE_HEAD;
    connection->deadline = uv_now(server->loop) + server->limits.idle_ms;
    if (writer_is_empty(&connection->writer))
        writer_free(&connection->writer);
    feed_waiting(connection);
    throttle(connection);
}

void connection_accept(struct http_server *server)
{
    struct http_connection *connection = xcalloc(1, sizeof *connection);
    connection->server = server;
    uv_tcp_init(server->loop, &connection->tcp);
    connection->tcp.data = connection;
    connection->next = server->connections;
    if (server->connections)
        server->connections->previous = connection;
    server->connections = connection;
    server->connection_count++;
    server->accepted++;
    writer_init(&connection->writer, (uv_stream_t *)&connection->tcp, on_written, connection);
    connection->deadline =
        uv_now(server->loop) + (server->tls ? server->limits.head_ms : server->limits.idle_ms);
    if (uv_accept((uv_stream_t *)&server->listener, (uv_stream_t *)&connection->tcp) < 0 ||
        server->connection_count > server->limits.connections ||
        uv_read_start((uv_stream_t *)&connection->tcp, on_alloc, on_read) < 0) {
        connection_close(connection);
        return;
    }
    uv_tcp_nodelay(&connection->tcp, 1);
    uv_tcp_keepalive(&connection->tcp, 1, KEEPALIVE_S);
}
