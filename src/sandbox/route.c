/*
 * Passing operations between their users and the agent. Streams are renumbered: each client counts
 * on its own, the agent sees slots. Neither side is trusted with the other's memory: bytes beyond
 * the credit that was given end the connection they came on.
 */
#include "base/log.h"
#include "proto/fields.h"
#include "proto/outcome.h"
#include "sandbox/keeper_internal.h"

#define NOTICE_MAX 256
#define NOTICES_MAX 16

static uint32_t slot_stream(const struct keeper *keeper, const struct route *route)
{
    return (uint32_t)(route - keeper->routes) + 1;
}

static struct route *free_slot(struct keeper *keeper)
{
    for (size_t i = 0; i < PROTOCOL_STREAMS_MAX; i++) {
        if (!keeper->routes[i].user)
            return &keeper->routes[i];
    }
    return NULL;
}

static struct route *take_slot(struct keeper *keeper, const struct route_user *user, void *owner)
{
    struct route *route = free_slot(keeper);
    if (!route)
        return NULL;
    *route = (struct route){
        .user = user, .owner = owner, .to_user = PROTOCOL_WINDOW, .to_agent = PROTOCOL_WINDOW};
    keeper->active++;
    return route;
}

static void release(struct keeper *keeper, struct route *route)
{
    /* The sandbox may have ended with this very operation. */
    bool counts = route->user && !route->parked;
    *route = (struct route){0};
    if (!counts)
        return;
    keeper->active--;
    keeper_touch(keeper);
}

static void send_to_agent(struct keeper *keeper, const struct route *route,
                          const struct frame *frame)
{
    link_send(&keeper->agent, slot_stream(keeper, route), frame->type, frame->detail,
              frame->payload, frame->length);
}

/* What was started to go on without its client is let go, the rest is ended. */
static void send_cancel(struct keeper *keeper, const struct route *route)
{
    cleanup_buf struct buf fields = {0};
    fields_add_number(&fields, TAG_DETACH, 1);
    fields_add_number(&fields, TAG_CANCEL, 1);
    link_send(&keeper->agent, slot_stream(keeper, route), FRAME_CONTROL, 0, buf_data(&fields),
              buf_length(&fields));
}

/* ---- nobody: whoever asked has left, and the operation is being cancelled -------------------- */

static void on_nobody_frame(struct route *route, const struct frame *frame)
{
    if (frame->type == FRAME_DATA)
        route_grant(route->owner, route, frame->length);
}

static void on_nobody_lost(struct route *route, const struct error *reason)
{
    (void)route, (void)reason;
}

static const struct route_user nobody = {.frame = on_nobody_frame, .lost = on_nobody_lost};

/* ---- services of the keeper ---------------------------------------------------------------- */

struct route *route_start(struct keeper *keeper, enum operation operation, const struct buf *fields,
                          const struct route_user *user, void *owner)
{
    struct route *route = take_slot(keeper, user, owner);
    if (route)
        link_send(&keeper->agent, slot_stream(keeper, route), FRAME_OPEN, (uint8_t)operation,
                  buf_data(fields), buf_length(fields));
    return route;
}

void route_send(struct keeper *keeper, struct route *route, const void *bytes, size_t length)
{
    route->to_agent -= length;
    link_send(&keeper->agent, slot_stream(keeper, route), FRAME_DATA, CHANNEL_STDIN, bytes, length);
}

void route_send_eof(struct keeper *keeper, const struct route *route)
{
    link_send(&keeper->agent, slot_stream(keeper, route), FRAME_EOF, CHANNEL_STDIN, NULL, 0);
}

void route_grant(struct keeper *keeper, struct route *route, size_t length)
{
    if (length == 0)
        return;
    route->to_user += length;
    link_send_credit(&keeper->agent, slot_stream(keeper, route), (uint32_t)length);
}

void route_cancel(struct keeper *keeper, struct route *route)
{
    route->user = &nobody;
    route->owner = keeper;
    send_cancel(keeper, route);
}

void route_park(struct keeper *keeper, struct route *route)
{
    route->parked = true;
    keeper->active--;
}

void route_unpark(struct keeper *keeper, struct route *route)
{
    route->parked = false;
    keeper->active++;
    keeper_touch(keeper);
}

/* ---- clients ------------------------------------------------------------------------------- */

static void on_client_frame(struct route *route, const struct frame *frame)
{
    struct client *client = route->owner;
    link_send(&client->link, route->client_stream, frame->type, frame->detail, frame->payload,
              frame->length);
}

static void on_client_lost(struct route *route, const struct error *reason)
{
    client_fail(route->owner, route->client_stream, reason);
}

static const struct route_user client_user = {.frame = on_client_frame, .lost = on_client_lost};

static struct route *find(struct client *client, uint32_t stream)
{
    struct keeper *keeper = client->keeper;
    for (size_t i = 0; keeper->active && i < PROTOCOL_STREAMS_MAX; i++) {
        struct route *route = &keeper->routes[i];
        if (route->owner == client && route->client_stream == stream)
            return route;
    }
    return NULL;
}

void route_open(struct client *client, const struct frame *frame)
{
    struct error err;
    struct keeper *keeper = client->keeper;
    struct route *route = take_slot(keeper, &client_user, client);
    if (!route) {
        error_set(&err, ERROR_LIMIT, "%d operations are under way in this sandbox already",
                  PROTOCOL_STREAMS_MAX);
        error_hint(&err, "wait for some of them to end");
        client_fail(client, frame->stream, &err);
        return;
    }
    route->client_stream = frame->stream;
    route->prints = frame->detail == OP_EXEC || frame->detail == OP_RUN;
    send_to_agent(keeper, route, frame);
}

static bool add_credit(uint64_t *budget, const struct frame *frame, struct error *err)
{
    uint32_t amount;
    if (frame_credit(frame, &amount, err) < 0)
        return false;
    /* Credit is given back, never made: more would be a way to fill our memory. */
    *budget = *budget + amount > PROTOCOL_WINDOW ? PROTOCOL_WINDOW : *budget + amount;
    return true;
}

static bool spend(uint64_t *budget, const struct frame *frame, struct error *err)
{
    if (frame->length > *budget) {
        error_set(err, ERROR_PROTOCOL, "data beyond the credit that was given");
        return false;
    }
    *budget -= frame->length;
    return true;
}

/* Notices cost no credit, so there may be only few and small ones of them. */
static bool count_notice(struct route *route, const struct frame *frame, struct error *err)
{
    if (frame->length > NOTICE_MAX || ++route->notices > NOTICES_MAX) {
        error_set(err, ERROR_PROTOCOL, "too many or too large notices");
        return false;
    }
    return true;
}

void route_forward(struct client *client, const struct frame *frame)
{
    struct error err;
    struct keeper *keeper = client->keeper;
    struct route *route = find(client, frame->stream);
    /* Frames cross: the operation may have ended while this one was on its way. */
    if (!route)
        return;
    bool good = true;
    if (frame->type == FRAME_CREDIT)
        good = add_credit(&route->to_user, frame, &err);
    else if (frame->type == FRAME_DATA)
        good = spend(&route->to_agent, frame, &err);
    if (good) {
        send_to_agent(keeper, route, frame);
    } else {
        log_warn("closing a client: %s", err.message);
        client->link.handlers->lost(&client->link, &err);
    }
}

void route_abandon(struct keeper *keeper, struct client *client)
{
    for (size_t i = 0; i < PROTOCOL_STREAMS_MAX; i++) {
        if (keeper->routes[i].owner == client)
            route_cancel(keeper, &keeper->routes[i]);
    }
}

/* ---- the agent ----------------------------------------------------------------------------- */

void route_end_all(struct keeper *keeper, const struct error *reason)
{
    for (size_t i = 0; i < PROTOCOL_STREAMS_MAX; i++) {
        struct route *route = &keeper->routes[i];
        if (route->user)
            route->user->lost(route, reason);
        *route = (struct route){0};
    }
    keeper->active = 0;
}

static void keep_output(struct keeper *keeper, const struct route *route, const struct frame *frame)
{
    if (route->prints && frame->type == FRAME_DATA &&
        (frame->detail == CHANNEL_STDOUT || frame->detail == CHANNEL_STDERR))
        output_log_write(&keeper->log, frame->payload, frame->length);
}

static bool take_from_agent(struct keeper *keeper, struct route *route, const struct frame *frame,
                            struct error *err)
{
    switch (frame->type) {
    case FRAME_CREDIT:
        if (!add_credit(&route->to_agent, frame, err))
            return false;
        break;
    case FRAME_DATA:
        if (!spend(&route->to_user, frame, err))
            return false;
        break;
    case FRAME_EOF:
    case FRAME_EVENT:
        if (!count_notice(route, frame, err))
            return false;
        break;
    case FRAME_END:
        break;
    default:
        error_set(err, ERROR_PROTOCOL, "frame type %d makes no sense from inside", frame->type);
        return false;
    }
    keep_output(keeper, route, frame);
    route->user->frame(route, frame);
    if (frame->type == FRAME_END)
        release(keeper, route);
    return true;
}

static void on_agent_frame(struct link *link, const struct frame *frame)
{
    struct keeper *keeper = link->owner;
    struct error err;
    struct route *route = frame->stream >= 1 && frame->stream <= PROTOCOL_STREAMS_MAX
                              ? &keeper->routes[frame->stream - 1]
                              : NULL;
    if (!route || !route->user) {
        keeper_end(keeper, ERROR_PROTOCOL, "the sandbox answered a question nobody asked");
        return;
    }
    if (!take_from_agent(keeper, route, frame, &err))
        keeper_end(keeper, ERROR_PROTOCOL, err.message);
}

static void on_agent_lost(struct link *link, const struct error *reason)
{
    if (reason->code == ERROR_PROTOCOL)
        keeper_end(link->owner, ERROR_PROTOCOL, reason->message);
    else
        keeper_lost_machine(link->owner);
}

const struct link_handlers route_agent_handlers = {
    .frame = on_agent_frame,
    .lost = on_agent_lost,
};
