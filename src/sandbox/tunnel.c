#include "sandbox/tunnel.h"

#include "base/mem.h"
#include "proto/outcome.h"

static void on_handle_closed(uv_handle_t *handle)
{
    struct tunnel *tunnel = handle->data;
    if (--tunnel->open_handles > 0)
        return;
    struct tunnel **at = &tunnel->keeper->network.tunnels;
    while (*at != tunnel)
        at = &(*at)->next;
    *at = tunnel->next;
    writer_free(&tunnel->writer);
    tunnel->closed(tunnel);
    free(tunnel);
}

static bool is_closing(const struct tunnel *tunnel)
{
    return uv_is_closing((const uv_handle_t *)&tunnel->tcp);
}

static void forget_route(struct tunnel *tunnel)
{
    struct route *route = steal_pointer(&tunnel->route);
    if (route)
        route_cancel(tunnel->keeper, route);
}

static void close_tunnel(struct tunnel *tunnel, bool reset)
{
    forget_route(tunnel);
    if (is_closing(tunnel))
        return;
    uv_close((uv_handle_t *)&tunnel->idle, on_handle_closed);
    if (!reset || uv_tcp_close_reset(&tunnel->tcp, on_handle_closed) < 0)
        uv_close((uv_handle_t *)&tunnel->tcp, on_handle_closed);
}

void tunnel_break(struct tunnel *tunnel)
{
    close_tunnel(tunnel, true);
}

void tunnel_break_all(struct keeper *keeper)
{
    for (struct tunnel *tunnel = keeper->network.tunnels; tunnel; tunnel = tunnel->next)
        tunnel_break(tunnel);
}

static void on_idle(uv_timer_t *timer)
{
    tunnel_break(timer->data);
}

static void put_off_idle(struct tunnel *tunnel)
{
    if (tunnel->idle_ms)
        uv_timer_start(&tunnel->idle, on_idle, tunnel->idle_ms, 0);
}

/* ---- to the outside ------------------------------------------------------------------------ */

static void on_shut(uv_shutdown_t *request, int status)
{
    (void)status;
    free(request);
}

/* Tells the outside that all has been said, once it has been written. */
static void conclude_writing(struct tunnel *tunnel)
{
    if (!tunnel->joined || !writer_is_empty(&tunnel->writer) || is_closing(tunnel))
        return;
    if (!tunnel->route) {
        close_tunnel(tunnel, tunnel->broken);
        return;
    }
    if (!tunnel->inside_ended || tunnel->outside_told)
        return;
    tunnel->outside_told = true;
    uv_shutdown_t *request = xcalloc(1, sizeof *request);
    if (uv_shutdown(request, (uv_stream_t *)&tunnel->tcp, on_shut) < 0)
        free(request);
}

static void on_written(struct writer *writer, size_t length, int status)
{
    struct tunnel *tunnel = writer->owner;
    if (status < 0) {
        tunnel_break(tunnel);
        return;
    }
    put_off_idle(tunnel);
    size_t own = length < tunnel->own ? length : tunnel->own;
    tunnel->own -= own;
    tunnel->keeper->network.sent += length;
    if (tunnel->route)
        route_grant(tunnel->keeper, tunnel->route, length - own);
    conclude_writing(tunnel);
}

void tunnel_write(struct tunnel *tunnel, const struct buf *bytes, size_t own)
{
    if (buf_length(bytes) == 0)
        return;
    tunnel->own += own;
    buf_append(&tunnel->writer.out, buf_data(bytes), buf_length(bytes));
    writer_flush(&tunnel->writer);
}

void tunnel_end_inside(struct tunnel *tunnel)
{
    tunnel->inside_ended = true;
    conclude_writing(tunnel);
}

/* ---- to the inside ------------------------------------------------------------------------- */

static void on_room(uv_handle_t *handle, size_t suggested, uv_buf_t *room)
{
    (void)suggested;
    const struct tunnel *tunnel = handle->data;
    struct network *network = &tunnel->keeper->network;
    size_t length = tunnel->route ? tunnel->route->to_agent : 0;
    room->base = network->piece;
    room->len = length < sizeof network->piece ? length : sizeof network->piece;
}

static void on_bytes(uv_stream_t *stream, ssize_t got, const uv_buf_t *room)
{
    struct tunnel *tunnel = stream->data;
    if (!tunnel->route || got == 0)
        return;
    if (got > 0) {
        put_off_idle(tunnel);
        tunnel->keeper->network.received += (uint64_t)got;
        route_send(tunnel->keeper, tunnel->route, room->base, (size_t)got);
        if (tunnel->route->to_agent == 0)
            uv_read_stop(stream);
    } else if (got == UV_EOF) {
        tunnel->outside_ended = true;
        route_send_eof(tunnel->keeper, tunnel->route);
    } else {
        tunnel_break(tunnel);
    }
}

static void read_on(struct tunnel *tunnel)
{
    if (tunnel->joined && !tunnel->outside_ended && !is_closing(tunnel) &&
        tunnel->route->to_agent > 0)
        uv_read_start((uv_stream_t *)&tunnel->tcp, on_room, on_bytes);
}

/* ---- from the inside ----------------------------------------------------------------------- */

static void on_end(struct tunnel *tunnel, const struct frame *frame)
{
    struct error err;
    struct outcome outcome;
    tunnel->broken = outcome_read(frame, &outcome, &err) < 0 || outcome.verdict != VERDICT_DONE;
    outcome_free(&outcome);
    tunnel->route = NULL;
    uv_read_stop((uv_stream_t *)&tunnel->tcp);
    conclude_writing(tunnel);
}

static void on_frame(struct route *route, const struct frame *frame)
{
    struct tunnel *tunnel = route->owner;
    if (frame->type == FRAME_END) {
        on_end(tunnel, frame);
    } else if (frame->type == FRAME_CREDIT) {
        read_on(tunnel);
    } else if (frame->type == FRAME_EOF) {
        tunnel_end_inside(tunnel);
    } else if (frame->type == FRAME_DATA && tunnel->inside_ended) {
        route_grant(tunnel->keeper, route, frame->length);
    } else if (frame->type == FRAME_DATA) {
        buf_append(&tunnel->writer.out, frame->payload, frame->length);
        writer_flush(&tunnel->writer);
    }
}

static void on_lost(struct route *route, const struct error *reason)
{
    (void)reason;
    struct tunnel *tunnel = route->owner;
    tunnel->route = NULL;
    tunnel_break(tunnel);
}

const struct route_user tunnel_user = {.frame = on_frame, .lost = on_lost};

/* ---- making one ---------------------------------------------------------------------------- */

struct tunnel *tunnel_make(struct keeper *keeper, void (*closed)(struct tunnel *tunnel),
                           void *owner)
{
    struct tunnel *tunnel = xcalloc(1, sizeof *tunnel);
    tunnel->keeper = keeper;
    tunnel->closed = closed;
    tunnel->owner = owner;
    tunnel->open_handles = 2;
    tunnel->next = keeper->network.tunnels;
    keeper->network.tunnels = tunnel;
    uv_tcp_init(&keeper->loop, &tunnel->tcp);
    uv_timer_init(&keeper->loop, &tunnel->idle);
    tunnel->tcp.data = tunnel->idle.data = tunnel;
    writer_init(&tunnel->writer, (uv_stream_t *)&tunnel->tcp, on_written, tunnel);
    return tunnel;
}

void tunnel_join(struct tunnel *tunnel, struct route *route)
{
    tunnel->route = route;
    tunnel->joined = true;
    uv_tcp_nodelay(&tunnel->tcp, 1);
    put_off_idle(tunnel);
    read_on(tunnel);
    conclude_writing(tunnel);
}
