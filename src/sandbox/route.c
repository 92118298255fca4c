/*
 * Passing operations between clients and the agent. Streams are renumbered: each client counts on
 * its own, the agent sees slots. Neither side is trusted with the other's memory: bytes beyond
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
        if (!keeper->routes[i].in_use)
            return &keeper->routes[i];
    }
    return NULL;
}

static struct route *find(struct client *client, uint32_t stream)
{
    struct keeper *keeper = client->keeper;
    for (size_t i = 0; keeper->active && i < PROTOCOL_STREAMS_MAX; i++) {
        struct route *route = &keeper->routes[i];
        if (route->in_use && route->client == client && route->client_stream == stream)
            return route;
    }
    return NULL;
}

static void release(struct keeper *keeper, struct route *route)
{
    *route = (struct route){0};
    keeper->active--;
    keeper_touch(keeper);
}

void route_open(struct client *client, const struct frame *frame)
{
    struct error err;
    struct keeper *keeper = client->keeper;
    struct route *route = free_slot(keeper);
    if (!route) {
        error_set(&err, ERROR_LIMIT, "%d operations are under way in this sandbox already",
                  PROTOCOL_STREAMS_MAX);
        error_hint(&err, "wait for some of them to end");
        client_fail(client, frame->stream, &err);
        return;
    }
    *route = (struct route){
        .client = client,
        .client_stream = frame->stream,
        .to_client = PROTOCOL_WINDOW,
        .to_agent = PROTOCOL_WINDOW,
        .in_use = true,
        .prints = frame->detail == OP_EXEC || frame->detail == OP_RUN,
    };
    keeper->active++;
    link_send(&keeper->agent, slot_stream(keeper, route), FRAME_OPEN, frame->detail, frame->payload,
              frame->length);
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
        good = add_credit(&route->to_client, frame, &err);
    else if (frame->type == FRAME_DATA)
        good = spend(&route->to_agent, frame, &err);
    if (good) {
        link_send(&keeper->agent, slot_stream(keeper, route), frame->type, frame->detail,
                  frame->payload, frame->length);
    } else {
        log_warn("closing a client: %s", err.message);
        client->link.handlers->lost(&client->link, &err);
    }
}

/* What was started to go on without its client is let go, the rest is ended. */
static void cancel(struct keeper *keeper, const struct route *route)
{
    cleanup_buf struct buf fields = {0};
    fields_add_number(&fields, TAG_DETACH, 1);
    fields_add_number(&fields, TAG_CANCEL, 1);
    link_send(&keeper->agent, slot_stream(keeper, route), FRAME_CONTROL, 0, buf_data(&fields),
              buf_length(&fields));
}

void route_abandon(struct keeper *keeper, struct client *client)
{
    for (size_t i = 0; i < PROTOCOL_STREAMS_MAX; i++) {
        struct route *route = &keeper->routes[i];
        if (!route->in_use || route->client != client)
            continue;
        route->client = NULL;
        cancel(keeper, route);
    }
}

void route_end_all(struct keeper *keeper, const struct error *reason)
{
    for (size_t i = 0; i < PROTOCOL_STREAMS_MAX; i++) {
        struct route *route = &keeper->routes[i];
        if (route->in_use && route->client)
            client_fail(route->client, route->client_stream, reason);
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

/* To a client that left: nobody reads, so the agent gets its credit back from us. */
static void swallow(struct keeper *keeper, struct route *route, const struct frame *frame)
{
    if (frame->type == FRAME_DATA && frame->length) {
        route->to_client += frame->length;
        link_send_credit(&keeper->agent, slot_stream(keeper, route), frame->length);
    }
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
        if (!spend(&route->to_client, frame, err))
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
    if (route->client)
        link_send(&route->client->link, route->client_stream, frame->type, frame->detail,
                  frame->payload, frame->length);
    else
        swallow(keeper, route, frame);
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
    if (!route || !route->in_use) {
        keeper_end(keeper, ERROR_PROTOCOL, "the sandbox answered a question nobody asked");
        return;
    }
    if (!take_from_agent(keeper, route, frame, &err))
        keeper_end(keeper, ERROR_PROTOCOL, err.message);
}

static void on_agent_lost(struct link *link, const struct error *reason)
{
    keeper_end(link->owner, reason->code == ERROR_PROTOCOL ? ERROR_PROTOCOL : ERROR_UNAVAILABLE,
               reason->code == ERROR_PROTOCOL ? reason->message : "its machine ended");
}

const struct link_handlers route_agent_handlers = {
    .frame = on_agent_frame,
    .lost = on_agent_lost,
};
