/*
 * A tunnel joins a TCP connection of the host and a route to the inside: bytes both ways under
 * credit, each direction ending on its own. What breaks on one side is broken off on the other.
 */
#pragma once

#include <uv.h>

#include "sandbox/keeper_internal.h"

struct tunnel {
    struct keeper *keeper;
    struct route *route; /* NULL: not joined, or over inside */
    uv_tcp_t tcp;
    uv_timer_t idle;
    uint64_t idle_ms; /* broken off after so long without a byte; 0: never */
    struct writer writer;
    size_t own;         /* bytes to be written first that the agent did not send */
    bool inside_ended;  /* no more bytes come from inside */
    bool outside_told;  /* and the other side knows */
    bool outside_ended; /* no more bytes come from outside */
    bool broken;        /* it broke inside: the outside is to see that once all is written */
    bool joined;
    unsigned open_handles;
    /* It is closed and freed when this returns. */
    void (*closed)(struct tunnel *tunnel);
    void *owner;
    struct tunnel *next;
};

extern const struct route_user tunnel_user;

/* A tunnel without a connection: its tcp is still to be accepted or connected. */
struct tunnel *tunnel_make(struct keeper *keeper, void (*closed)(struct tunnel *tunnel),
                           void *owner);
/* The connection is there: bytes flow from now on. The route must have tunnel_user as its user. */
void tunnel_join(struct tunnel *tunnel, struct route *route);
/* Bytes for the outside; the first `own` of them cost no credit. */
void tunnel_write(struct tunnel *tunnel, const struct buf *bytes, size_t own);
/* No more bytes will come from inside. */
void tunnel_end_inside(struct tunnel *tunnel);
/* Ends the connection at once: the other side sees a reset. */
void tunnel_break(struct tunnel *tunnel);
/* The sandbox is gone. */
void tunnel_break_all(struct keeper *keeper);
