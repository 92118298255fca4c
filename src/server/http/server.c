/* Listening, the tick that ends slow connections, draining. */
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/random.h>

#include "server/http/internal.h"

#define BACKLOG 1024
#define TICK_MS 1000

static void on_tick(uv_timer_t *tick)
{
    struct http_server *server = tick->data;
    uint64_t now = uv_now(server->loop);
    struct http_connection *next;
    for (struct http_connection *at = server->connections; at; at = next) {
        next = at->next;
        if (at->deadline && at->deadline <= now)
            connection_close(at);
    }
    if (server->connection_count == 0)
        uv_timer_stop(tick);
}

static void on_connection(uv_stream_t *listener, int status)
{
    struct http_server *server = listener->data;
    if (status < 0)
        return;
    connection_accept(server);
    if (!uv_is_active((uv_handle_t *)&server->tick))
        uv_timer_start(&server->tick, on_tick, TICK_MS, TICK_MS);
}

void http_init(struct http_server *server, uv_loop_t *loop, const struct http_route *routes)
{
    *server = (struct http_server){
        .loop = loop,
        .routes = routes,
        .limits = {.connections = 10000,
                   .head_ms = 10000,
                   .body_ms = 30000,
                   .idle_ms = 75000,
                   .stall_ms = 60000,
                   .ping_ms = 30000},
    };
    ssize_t ignored = getrandom(&server->id_prefix, sizeof server->id_prefix, 0);
    (void)ignored;
}

static int resolve(const char *host, uint16_t port, struct sockaddr_storage *address,
                   struct error *err)
{
    if (strcmp(host, "localhost") == 0)
        host = "127.0.0.1";
    if (uv_ip4_addr(host, port, (struct sockaddr_in *)address) == 0 ||
        uv_ip6_addr(host, port, (struct sockaddr_in6 *)address) == 0)
        return 0;
    error_set(err, ERROR_INVALID, "\"%.80s\" is no address to listen on", host);
    return error_hint(err, "give a number, such as 127.0.0.1 or ::1");
}

static int bind_and_listen(struct http_server *server, const struct sockaddr_storage *address)
{
    uv_tcp_init(server->loop, &server->listener);
    server->listener.data = server;
    server->open_handles = 1;
    int result = uv_tcp_bind(&server->listener, (const struct sockaddr *)address, 0);
    if (result == 0)
        result = uv_listen((uv_stream_t *)&server->listener, BACKLOG, on_connection);
    return result;
}

int http_listen(struct http_server *server, const char *host, uint16_t port, struct error *err)
{
    struct sockaddr_storage address = {0};
    if (resolve(host, port, &address, err) < 0)
        return -1;
    int result = bind_and_listen(server, &address);
    if (result < 0)
        return error_errno(err, -result, "cannot listen on %s port %u", host, port);
    uv_timer_init(server->loop, &server->tick);
    server->tick.data = server;
    server->open_handles = 2;
    return 0;
}

uint16_t http_port(const struct http_server *server)
{
    struct sockaddr_storage address = {0};
    int size = sizeof address;
    uv_tcp_getsockname(&server->listener, (struct sockaddr *)&address, &size);
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)&address;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&address;
    return ntohs(address.ss_family == AF_INET6 ? v6->sin6_port : v4->sin_port);
}

void http_peer(const struct http_request *request, char *text, size_t size)
{
    struct sockaddr_storage address = {0};
    int length = sizeof address;
    text[0] = '\0';
    if (uv_tcp_getpeername(&request->connection->tcp, (struct sockaddr *)&address, &length) == 0)
        uv_ip_name((const struct sockaddr *)&address, text, size);
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct http_server *server = handle->data;
    if (--server->open_handles == 0 && server->drained)
        server->drained(server);
}

static void close_handle(uv_handle_t *handle)
{
    if (!uv_is_closing(handle))
        uv_close(handle, on_handle_closed);
}

void http_drain(struct http_server *server)
{
    struct http_connection *next;
    server->draining = true;
    close_handle((uv_handle_t *)&server->listener);
    for (struct http_connection *at = server->connections; at; at = next) {
        next = at->next;
        if (at->phase == PHASE_PIPE && at->request->on_drain)
            at->request->on_drain(at->request);
        else if (at->phase == PHASE_PIPE ||
                 (at->phase == PHASE_HEAD && at->began == 0 && writer_is_empty(&at->writer)))
            connection_close(at);
    }
    /* The tick goes on for those that are slow. */
    if (server->connection_count == 0)
        close_handle((uv_handle_t *)&server->tick);
}

void http_abandon(struct http_server *server)
{
    struct http_connection *next;
    for (struct http_connection *at = server->connections; at; at = next) {
        next = at->next;
        connection_close(at);
    }
}
