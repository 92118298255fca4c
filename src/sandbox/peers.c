#include "sandbox/peers.h"

#include <string.h>

#include "base/mem.h"
#include "proto/fields.h"
#include "sandbox/state.h"
#include "sandbox/tunnel.h"

/* 127.0.2.1 is the first. */
#define FIRST_ADDRESS 0x7f000201u
#define PEERS_MAX 64
#define PARKED 2
#define LIVE_MAX 64
#define RETRY_MS 1000

/* One port of one of them. */
struct peer {
    struct keeper *keeper;
    char *name;
    uint16_t port;
    uint32_t address;
    unsigned parked; /* places for somebody inside to connect to */
    unsigned live;   /* connections, also those being made */
    uv_timer_t retry;
};

/* A connection from inside that is not joined to one outside yet. */
struct arrival {
    struct peer *peer;
    struct route *route;
    bool has_arrived;
    bool inside_ended;
    struct buf in;         /* bounded by credit */
    struct tunnel *tunnel; /* being connected */
};

static void park(struct peer *peer);

static void on_retry(uv_timer_t *timer)
{
    park(timer->data);
}

/* ---- names and addresses --------------------------------------------------------------------- */

/* All ports of one name have the address of its first. */
static uint32_t address_of(char *const *peers, size_t i)
{
    size_t length = strcspn(peers[i], ":") + 1;
    size_t first = 0;
    while (strncmp(peers[first], peers[i], length) != 0)
        first++;
    return FIRST_ADDRESS + (uint32_t)first;
}

void peers_add_hosts(const struct keeper *keeper, struct buf *fields)
{
    char *const *peers = keeper->config.peers;
    for (size_t i = 0; peers && peers[i]; i++) {
        uint32_t address = address_of(peers, i);
        if (address != FIRST_ADDRESS + (uint32_t)i)
            continue;
        cleanup_free char *line = xasprintf("127.0.%u.%u %.*s", address >> 8 & 0xff, address & 0xff,
                                            (int)strcspn(peers[i], ":"), peers[i]);
        fields_add_text(fields, TAG_HOST, line);
    }
}

static bool parse_address(const char *text, int port, struct sockaddr_storage *address)
{
    if (strcmp(text, "0.0.0.0") == 0)
        text = "127.0.0.1";
    if (strcmp(text, "::") == 0)
        text = "::1";
    return uv_ip4_addr(text, port, (struct sockaddr_in *)address) == 0 ||
           uv_ip6_addr(text, port, (struct sockaddr_in6 *)address) == 0;
}

/* Where the host leads to the peer's port; it may have come anew with another one. */
static bool find_port(const struct peer *peer, struct sockaddr_storage *address)
{
    bool found = false;
    json_t *settings = state_read_settings(peer->keeper->config.namespace, peer->name);
    const json_t *ports = json_object_get(settings, "ports");
    for (size_t i = 0; !found && i < json_array_size(ports); i++) {
        const json_t *port = json_array_get(ports, i);
        const char *text = json_string_value(json_object_get(port, "address"));
        int host = (int)json_integer_value(json_object_get(port, "host"));
        found = json_integer_value(json_object_get(port, "guest")) == peer->port && text &&
                parse_address(text, host, address);
    }
    json_decref(settings);
    return found;
}

/* ---- arrivals -------------------------------------------------------------------------------- */

static void free_arrival(struct arrival *arrival)
{
    struct tunnel *tunnel = arrival->tunnel;
    if (tunnel) {
        tunnel->owner = NULL;
        tunnel_break(tunnel);
    }
    buf_free(&arrival->in);
    free(arrival);
}

/* The program inside sees the end of its connection. */
static void refuse(struct arrival *arrival)
{
    struct peer *peer = arrival->peer;
    if (arrival->route)
        route_cancel(peer->keeper, arrival->route);
    peer->live--;
    free_arrival(arrival);
    park(peer);
}

static void on_tunnel_closed(struct tunnel *tunnel)
{
    struct peer *peer = tunnel->owner;
    if (!tunnel->joined)
        return;
    peer->live--;
    park(peer);
}

static void hand_over(struct arrival *arrival)
{
    struct tunnel *tunnel = steal_pointer(&arrival->tunnel);
    struct route *route = arrival->route;
    route->user = &tunnel_user;
    route->owner = tunnel;
    tunnel->owner = arrival->peer;
    tunnel_join(tunnel, route);
    tunnel_write(tunnel, &arrival->in, 0);
    if (arrival->inside_ended)
        tunnel_end_inside(tunnel);
    free_arrival(arrival);
}

static void on_connected(uv_connect_t *request, int status)
{
    struct tunnel *tunnel = request->data;
    free(request);
    struct arrival *arrival = tunnel->owner;
    /* Given up meanwhile. */
    if (!arrival || status == UV_ECANCELED)
        return;
    if (status == 0)
        hand_over(arrival);
    else
        refuse(arrival);
}

static void connect_to_peer(struct arrival *arrival)
{
    struct sockaddr_storage address;
    if (!find_port(arrival->peer, &address)) {
        refuse(arrival);
        return;
    }
    uv_connect_t *request = xcalloc(1, sizeof *request);
    arrival->tunnel = tunnel_make(arrival->peer->keeper, on_tunnel_closed, arrival);
    request->data = arrival->tunnel;
    if (uv_tcp_connect(request, &arrival->tunnel->tcp, (const struct sockaddr *)&address,
                       on_connected) == 0)
        return;
    free(request);
    refuse(arrival);
}

static void take_arrival(struct arrival *arrival)
{
    struct peer *peer = arrival->peer;
    arrival->has_arrived = true;
    peer->parked--;
    peer->live++;
    route_unpark(peer->keeper, arrival->route);
    park(peer);
    connect_to_peer(arrival);
}

static void take_end(struct arrival *arrival)
{
    struct peer *peer = arrival->peer;
    arrival->route = NULL;
    if (arrival->has_arrived) {
        refuse(arrival);
        return;
    }
    /* Somebody inside has the port, or there are too many files open. */
    peer->parked--;
    free_arrival(arrival);
    uv_timer_start(&peer->retry, on_retry, RETRY_MS, 0);
}

static void on_frame(struct route *route, const struct frame *frame)
{
    struct arrival *arrival = route->owner;
    if (frame->type == FRAME_END)
        take_end(arrival);
    else if (frame->type == FRAME_EVENT && !arrival->has_arrived)
        take_arrival(arrival);
    else if (frame->type == FRAME_DATA)
        buf_append(&arrival->in, frame->payload, frame->length);
    else if (frame->type == FRAME_EOF)
        arrival->inside_ended = true;
}

static void on_lost(struct route *route, const struct error *reason)
{
    (void)reason;
    free_arrival(route->owner);
}

static bool park_one(struct peer *peer)
{
    static const struct route_user user = {.frame = on_frame, .lost = on_lost};
    cleanup_buf struct buf fields = {0};
    fields_add_number(&fields, TAG_PORT, peer->port);
    fields_add_number(&fields, TAG_ADDRESS, peer->address);
    struct arrival *arrival = xcalloc(1, sizeof *arrival);
    arrival->peer = peer;
    arrival->route = route_start(peer->keeper, OP_ACCEPT, &fields, &user, arrival);
    if (!arrival->route) {
        free(arrival);
        return false;
    }
    route_park(peer->keeper, arrival->route);
    peer->parked++;
    return true;
}

/* Keeps some places open for those inside. */
static void park(struct peer *peer)
{
    while (!peer->keeper->ending && peer->parked < PARKED && peer->parked + peer->live < LIVE_MAX) {
        if (park_one(peer))
            continue;
        uv_timer_start(&peer->retry, on_retry, RETRY_MS, 0);
        return;
    }
}

static int start_peer(struct keeper *keeper, size_t i, struct error *err)
{
    const char *text = keeper->config.peers[i], *colon = strchr(text, ':');
    unsigned long port = colon ? strtoul(colon + 1, NULL, 10) : 0;
    if (port < 1 || port > UINT16_MAX)
        return error_set(err, ERROR_INVALID, "\"%.80s\" is no port of another sandbox", text);
    struct peer *peer = xcalloc(1, sizeof *peer);
    *peer = (struct peer){.keeper = keeper,
                          .name = xstrndup(text, (size_t)(colon - text)),
                          .port = (uint16_t)port,
                          .address = address_of(keeper->config.peers, i)};
    uv_timer_init(&keeper->loop, &peer->retry);
    peer->retry.data = peer;
    park(peer);
    return 0;
}

int peers_start(struct keeper *keeper, struct error *err)
{
    size_t count = strv_length(keeper->config.peers);
    if (count > PEERS_MAX)
        return error_set(err, ERROR_LIMIT, "a sandbox reaches at most %d ports of others",
                         PEERS_MAX);
    int result = 0;
    for (size_t i = 0; result == 0 && i < count; i++)
        result = start_peer(keeper, i, err);
    return result;
}
