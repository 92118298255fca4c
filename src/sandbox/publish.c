#include "sandbox/publish.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>

#include "base/mem.h"
#include "proto/fields.h"
#include "sandbox/tunnel.h"

#define BACKLOG 128
/* Leaves the rest of the streams to commands and to connections from inside. */
#define CONNECTIONS_MAX 512

static int refuse(const struct sandbox_port *port, struct error *err)
{
    int number = errno;
    error_errno(err, number, "port %u of %s cannot be published", port->host, port->address);
    if (number == EADDRINUSE)
        return error_hint(err,
                          "`ss -ltnp sport = :%u` tells who has it; choose another port, or 0 "
                          "for any free one",
                          port->host);
    return error_hint(err, "choose another address or port");
}

/* Addresses of both families have the port at the same place. */
static uint16_t port_of(int fd)
{
    struct sockaddr_in6 bound = {0};
    socklen_t size = sizeof bound;
    getsockname(fd, (struct sockaddr *)&bound, &size);
    return ntohs(bound.sin6_port);
}

static int listen_on(struct sandbox_port *port, struct error *err)
{
    char service[8];
    struct addrinfo *address;
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_PASSIVE, .ai_socktype = SOCK_STREAM};
    snprintf(service, sizeof service, "%u", port->host);
    if (getaddrinfo(port->address, service, &hints, &address) != 0)
        return error_set(err, ERROR_INVALID, "%s is no address", port->address);
    int on = 1;
    cleanup_fd int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool good = fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
                bind(fd, address->ai_addr, address->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0;
    freeaddrinfo(address);
    if (!good)
        return refuse(port, err);
    port->host = port_of(fd);
    return steal_fd(&fd);
}

int publish_bind(struct keeper *keeper, struct error *err)
{
    struct sandbox_config *config = &keeper->config;
    struct port *ports = xcalloc(config->port_count, sizeof *ports);
    keeper->network.ports = ports;
    for (size_t i = 0; i < config->port_count; i++)
        ports[i] = (struct port){.fd = -1, .guest = config->ports[i].guest, .keeper = keeper};
    for (size_t i = 0; i < config->port_count; i++) {
        ports[i].fd = listen_on(&config->ports[i], err);
        if (ports[i].fd < 0)
            return -1;
    }
    return 0;
}

static void on_tunnel_closed(struct tunnel *tunnel)
{
    tunnel->keeper->network.published--;
}

static void on_connection(uv_stream_t *listener, int status)
{
    const struct port *port = listener->data;
    struct keeper *keeper = port->keeper;
    if (status < 0 || keeper->ending)
        return;
    struct tunnel *tunnel = tunnel_make(keeper, on_tunnel_closed, NULL);
    keeper->network.published++;
    cleanup_buf struct buf fields = {0};
    fields_add_number(&fields, TAG_PORT, port->guest);
    struct route *route = NULL;
    if (uv_accept(listener, (uv_stream_t *)&tunnel->tcp) == 0 && !keeper->paused &&
        keeper->network.published <= CONNECTIONS_MAX)
        route = route_start(keeper, OP_CONNECT, &fields, &tunnel_user, tunnel);
    if (route)
        tunnel_join(tunnel, route);
    else
        tunnel_break(tunnel);
}

int publish_start(struct keeper *keeper, struct error *err)
{
    for (size_t i = 0; i < keeper->config.port_count; i++) {
        struct port *port = &keeper->network.ports[i];
        uv_tcp_init(&keeper->loop, &port->listener);
        port->listener.data = port;
        int result = uv_tcp_open(&port->listener, port->fd);
        if (result == 0) {
            port->fd = -1;
            result = uv_listen((uv_stream_t *)&port->listener, BACKLOG, on_connection);
        }
        if (result < 0)
            return error_set(err, ERROR_IO, "cannot listen on port %u: %s",
                             keeper->config.ports[i].host, uv_strerror(result));
    }
    return 0;
}

void publish_release(struct keeper *keeper)
{
    for (size_t i = 0; keeper->network.ports && i < keeper->config.port_count; i++)
        fd_close(steal_fd(&keeper->network.ports[i].fd));
}
