/*
 * A visit is one connection from inside to the proxy. It begins parked; when somebody inside has
 * connected it reads the request, asks the policy, resolves the name, asks the policy again for
 * every address, connects to the first that answers, and hands its route over to a tunnel. A visit
 * that is refused tells why and waits for the other side to leave.
 */
#include "sandbox/egress_internal.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "proto/fields.h"
#include "sandbox/proxy_request.h"
#include "sandbox/tunnel.h"

#define ADDRESSES_MAX 8
#define HEAD_MS 10000
#define RESOLVE_MS 10000
#define CONNECT_MS 10000
#define CONNECT_MORE_MS 4000 /* while there is another address to try */
#define LEAVE_MS 10000
#define IDLE_MS (15u * 60 * 1000)

enum stage { STAGE_PARKED, STAGE_HEAD, STAGE_RESOLVING, STAGE_CONNECTING, STAGE_LEAVING };

struct visit {
    struct egress *egress;
    struct keeper *keeper;
    struct route *route; /* NULL: over, or handed to the tunnel */
    enum stage stage;
    uv_timer_t deadline;
    struct buf in; /* bytes from inside that are not passed on; bounded by credit */
    size_t head;   /* how many of them are the request's head */
    bool inside_ended;
    struct proxy_request request;
    uv_getaddrinfo_t resolution;
    bool is_resolving;
    bool is_closed;
    struct sockaddr_storage addresses[ADDRESSES_MAX];
    unsigned address_count;
    unsigned next_address;
    struct tunnel *tunnel; /* being connected */
};

/* ---- the end of a visit -------------------------------------------------------------------- */

static void free_visit(struct visit *visit)
{
    if (!visit->is_closed || visit->is_resolving)
        return;
    buf_free(&visit->in);
    proxy_request_free(&visit->request);
    free(visit);
}

static void on_deadline_closed(uv_handle_t *handle)
{
    struct visit *visit = handle->data;
    visit->is_closed = true;
    free_visit(visit);
}

static void drop_tunnel(struct visit *visit)
{
    struct tunnel *tunnel = steal_pointer(&visit->tunnel);
    if (!tunnel)
        return;
    tunnel->owner = NULL;
    tunnel_break(tunnel);
}

/* Does not touch the route: it has ended, or somebody else has it. */
static void close_visit(struct visit *visit)
{
    if (uv_is_closing((uv_handle_t *)&visit->deadline))
        return;
    if (visit->is_resolving)
        uv_cancel((uv_req_t *)&visit->resolution);
    drop_tunnel(visit);
    uv_close((uv_handle_t *)&visit->deadline, on_deadline_closed);
}

static void leave(struct visit *visit)
{
    struct egress *egress = visit->egress;
    struct route *route = steal_pointer(&visit->route);
    if (route)
        route_cancel(visit->keeper, route);
    egress->live--;
    close_visit(visit);
    egress_refill(egress);
}

static void on_deadline(uv_timer_t *timer);

static void set_stage(struct visit *visit, enum stage stage, uint64_t limit_ms)
{
    visit->stage = stage;
    uv_timer_start(&visit->deadline, on_deadline, limit_ms, 0);
}

/* ---- refusals ------------------------------------------------------------------------------ */

static void refuse(struct visit *visit, int status, const struct error *err)
{
    cleanup_buf struct buf body = {0}, answer = {0};
    egress_log_refusal(visit->egress, status, err);
    drop_tunnel(visit);
    buf_printf(&body, "msb: %s\n", err->message);
    if (err->hint[0])
        buf_printf(&body, "     %s\n", err->hint);
    /* The reason stands in the first line too: of an answer to CONNECT many show nothing else. */
    buf_printf(&answer,
               "HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\n"
               "Content-Length: %zu\r\nConnection: close\r\n\r\n",
               status, err->message, buf_length(&body));
    buf_append(&answer, buf_data(&body), buf_length(&body));
    route_send(visit->keeper, visit->route, buf_data(&answer), buf_length(&answer));
    route_send_eof(visit->keeper, visit->route);
    /* What it still sends is thrown away: closing right now could cost it the answer. */
    set_stage(visit, STAGE_LEAVING, LEAVE_MS);
    route_grant(visit->keeper, visit->route, buf_length(&visit->in));
    buf_free(&visit->in);
}

static void fail_to_find(struct visit *visit, const char *why)
{
    struct error err;
    error_set(&err, ERROR_UNAVAILABLE, "cannot find %s: %s", visit->request.host, why);
    refuse(visit, 502, &err);
}

static void fail_to_connect(struct visit *visit, const char *why)
{
    struct error err;
    error_set(&err, ERROR_UNAVAILABLE, "cannot connect to port %u of %s: %s", visit->request.port,
              visit->request.host, why);
    refuse(visit, 502, &err);
}

/* ---- connecting ---------------------------------------------------------------------------- */

static void on_tunnel_closed(struct tunnel *tunnel)
{
    struct keeper *keeper = tunnel->keeper;
    if (!tunnel->joined)
        return;
    keeper->network.egress->live--;
    egress_refill(keeper->network.egress);
}

static void hand_over(struct visit *visit)
{
    static const char welcome[] = "HTTP/1.1 200 Connection established\r\n\r\n";
    struct keeper *keeper = visit->keeper;
    struct tunnel *tunnel = steal_pointer(&visit->tunnel);
    struct route *route = steal_pointer(&visit->route);
    route->user = &tunnel_user;
    route->owner = tunnel;
    route_grant(keeper, route, visit->head);
    buf_consume(&visit->in, visit->head);
    if (visit->request.is_connect)
        route_send(keeper, route, welcome, sizeof welcome - 1);
    tunnel->idle_ms = IDLE_MS;
    tunnel_join(tunnel, route);
    tunnel_write(tunnel, &visit->request.head, buf_length(&visit->request.head));
    tunnel_write(tunnel, &visit->in, 0);
    if (visit->inside_ended)
        tunnel_end_inside(tunnel);
    close_visit(visit);
}

static void try_next(struct visit *visit, const char *why);

static void on_connected(uv_connect_t *request, int status)
{
    struct tunnel *tunnel = request->data;
    free(request);
    struct visit *visit = tunnel->owner;
    /* Given up meanwhile. */
    if (!visit || status == UV_ECANCELED)
        return;
    if (status == 0) {
        tunnel->owner = NULL;
        hand_over(visit);
    } else {
        drop_tunnel(visit);
        try_next(visit, uv_strerror(status));
    }
}

static void try_next(struct visit *visit, const char *why)
{
    if (visit->next_address == visit->address_count) {
        fail_to_connect(visit, why);
        return;
    }
    const struct sockaddr *address =
        (const struct sockaddr *)&visit->addresses[visit->next_address++];
    bool more = visit->next_address < visit->address_count;
    visit->tunnel = tunnel_make(visit->keeper, on_tunnel_closed, visit);
    set_stage(visit, STAGE_CONNECTING, more ? CONNECT_MORE_MS : CONNECT_MS);
    uv_connect_t *request = xcalloc(1, sizeof *request);
    request->data = visit->tunnel;
    int result = uv_tcp_connect(request, &visit->tunnel->tcp, address, on_connected);
    if (result == 0)
        return;
    free(request);
    drop_tunnel(visit);
    try_next(visit, uv_strerror(result));
}

/* ---- resolving ----------------------------------------------------------------------------- */

static void add_address(struct visit *visit, const struct sockaddr *address, size_t size,
                        struct error *err)
{
    if (visit->address_count < ADDRESSES_MAX && size <= sizeof visit->addresses[0] &&
        egress_check_address(&visit->egress->policy, visit->request.host, visit->request.port,
                             address, err) == 0)
        memcpy(&visit->addresses[visit->address_count++], address, size);
}

static void connect_or_refuse(struct visit *visit, const struct error *err)
{
    if (visit->address_count > 0)
        try_next(visit, "");
    else
        refuse(visit, 403, err);
}

static void on_resolved(uv_getaddrinfo_t *resolution, int status, struct addrinfo *found)
{
    struct visit *visit = resolution->data;
    struct error err = {0};
    visit->is_resolving = false;
    if (uv_is_closing((uv_handle_t *)&visit->deadline) || visit->stage != STAGE_RESOLVING) {
        uv_freeaddrinfo(found);
        free_visit(visit);
        return;
    }
    if (status < 0) {
        fail_to_find(visit, uv_strerror(status));
        return;
    }
    error_set(&err, ERROR_DENIED, "%s has no address", visit->request.host);
    for (const struct addrinfo *at = found; at; at = at->ai_next)
        add_address(visit, at->ai_addr, at->ai_addrlen, &err);
    uv_freeaddrinfo(found);
    connect_or_refuse(visit, &err);
}

static void resolve(struct visit *visit)
{
    char service[8];
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    snprintf(service, sizeof service, "%u", visit->request.port);
    set_stage(visit, STAGE_RESOLVING, RESOLVE_MS);
    visit->resolution.data = visit;
    int result = uv_getaddrinfo(&visit->keeper->loop, &visit->resolution, on_resolved,
                                visit->request.host, service, &hints);
    visit->is_resolving = result == 0;
    if (result < 0)
        fail_to_find(visit, uv_strerror(result));
}

/* ---- the request --------------------------------------------------------------------------- */

static void take_request(struct visit *visit)
{
    struct error err;
    const struct egress_policy *policy = &visit->egress->policy;
    const struct proxy_request *request = &visit->request;
    if (egress_check_host(policy, request->host, request->port, &err) < 0) {
        refuse(visit, 403, &err);
        return;
    }
    struct sockaddr_storage address;
    if (!egress_host_address(request->host, request->port, &address)) {
        resolve(visit);
        return;
    }
    add_address(visit, (struct sockaddr *)&address, sizeof address, &err);
    connect_or_refuse(visit, &err);
}

static void read_head(struct visit *visit)
{
    struct error err;
    proxy_request_free(&visit->request);
    int head =
        proxy_request_read(&visit->request, buf_data(&visit->in), buf_length(&visit->in), &err);
    if (head > 0) {
        visit->head = (size_t)head;
        take_request(visit);
    } else if (head < 0) {
        refuse(visit, 400, &err);
    } else if (visit->inside_ended) {
        leave(visit);
    }
}

static void on_deadline(uv_timer_t *timer)
{
    struct visit *visit = timer->data;
    if (visit->stage == STAGE_RESOLVING) {
        fail_to_find(visit, "the name servers do not answer");
    } else if (visit->stage == STAGE_CONNECTING) {
        drop_tunnel(visit);
        try_next(visit, "it does not answer");
    } else {
        leave(visit);
    }
}

/* ---- from the inside ----------------------------------------------------------------------- */

static void begin(struct visit *visit)
{
    struct egress *egress = visit->egress;
    egress->parked--;
    egress->live++;
    route_unpark(visit->keeper, visit->route);
    set_stage(visit, STAGE_HEAD, HEAD_MS);
    egress_refill(egress);
}

static void on_data(struct visit *visit, const struct frame *frame)
{
    if (visit->stage == STAGE_LEAVING) {
        route_grant(visit->keeper, visit->route, frame->length);
        return;
    }
    buf_append(&visit->in, frame->payload, frame->length);
    if (visit->stage == STAGE_HEAD)
        read_head(visit);
}

static void on_end(struct visit *visit)
{
    struct egress *egress = visit->egress;
    visit->route = NULL;
    if (visit->stage != STAGE_PARKED) {
        leave(visit);
        return;
    }
    /* Somebody inside has the port, or there are too many files open. */
    egress->parked--;
    close_visit(visit);
    egress_retry(egress);
}

static void on_frame(struct route *route, const struct frame *frame)
{
    struct visit *visit = route->owner;
    if (frame->type == FRAME_END)
        on_end(visit);
    else if (frame->type == FRAME_EVENT && visit->stage == STAGE_PARKED)
        begin(visit);
    else if (frame->type == FRAME_DATA)
        on_data(visit, frame);
    else if (frame->type == FRAME_EOF) {
        visit->inside_ended = true;
        if (visit->stage == STAGE_HEAD)
            read_head(visit);
    }
}

static void on_lost(struct route *route, const struct error *reason)
{
    (void)reason;
    struct visit *visit = route->owner;
    visit->route = NULL;
    close_visit(visit);
}

static const struct route_user visit_user = {.frame = on_frame, .lost = on_lost};

bool egress_park(struct egress *egress)
{
    struct keeper *keeper = egress->keeper;
    cleanup_buf struct buf fields = {0};
    fields_add_number(&fields, TAG_PORT, EGRESS_PORT);
    struct visit *visit = xcalloc(1, sizeof *visit);
    visit->route = route_start(keeper, OP_ACCEPT, &fields, &visit_user, visit);
    if (!visit->route) {
        free(visit);
        return false;
    }
    route_park(keeper, visit->route);
    visit->egress = egress;
    visit->keeper = keeper;
    uv_timer_init(&keeper->loop, &visit->deadline);
    visit->deadline.data = visit;
    egress->parked++;
    return true;
}
