/* Shared by the keeper's files only. */
#pragma once

#include <uv.h>

#include "engine/engine.h"
#include "proto/outcome.h"
#include "proto/protocol.h"
#include "sandbox/config.h"
#include "sandbox/link.h"
#include "sandbox/output_log.h"

struct client;
struct egress;
struct route;
struct tunnel;

/* Whom an operation belongs to: a client, a service of the keeper, or nobody any more. */
struct route_user {
    /* DATA, EOF, EVENT, CREDIT or END from the agent, within the rules. The route is gone when the
     * call with END returns. */
    void (*frame)(struct route *route, const struct frame *frame);
    /* The sandbox is gone, and the route with it. */
    void (*lost)(struct route *route, const struct error *reason);
};

/* One operation on its way between its user and the agent. */
struct route {
    const struct route_user *user; /* NULL: this one is free */
    void *owner;                   /* the user's own */
    uint32_t client_stream;        /* of a client: its number for it */
    uint64_t to_user;              /* bytes the agent may still send */
    uint64_t to_agent;             /* bytes the user may still send */
    unsigned notices;              /* EVENT and EOF frames seen */
    bool prints;                   /* its output goes to the log: contents of files do not */
    bool parked;                   /* waits for the inside: it does not count as use */
};

struct port {
    uv_tcp_t listener;
    int fd; /* until the listener has taken it over */
    uint16_t guest;
    struct keeper *keeper;
};

/* Connections between the host's network and the inside. */
struct network {
    struct port *ports;    /* as many as the settings have */
    struct egress *egress; /* NULL: nothing may leave */
    struct tunnel *tunnels;
    unsigned published; /* tunnels that came by a port */
    uint64_t received;  /* bytes */
    uint64_t sent;
    char piece[65536]; /* being read */
};

/* What the settings have as `start`. */
struct start_command {
    void (*begun)(struct keeper *keeper, const struct error *failure); /* NULL: was told */
    uint64_t pid;                                                      /* 0: none */
    bool ended;
    enum verdict verdict;
    int exit_code, signal;
};

struct client {
    struct link link;
    struct keeper *keeper;
    struct client *next;
    bool is_owner;
};

struct keeper {
    uv_loop_t loop;
    int owner; /* the socket of whoever started us */
    struct sandbox_config config;
    char *folder;
    int lock;
    struct machine *machine;
    struct link agent;
    struct client *clients;
    struct route routes[PROTOCOL_STREAMS_MAX]; /* the agent's stream n is routes[n - 1] */
    unsigned active;                           /* routes in use and not parked */
    struct network network;
    struct output_log log;
    struct start_command command;
    int listening; /* socket */
    uv_poll_t listener;
    uv_poll_t machine_exit;
    uv_timer_t idle;
    uv_timer_t lifetime;
    uv_signal_t terminate;
    uv_thread_t enclosing; /* machine_enclose, on the side */
    bool is_enclosing;
    uint64_t started_us; /* since 1970 */
    uint64_t began_us;   /* the same by a clock that nobody sets */
    struct {
        uint64_t time_us, cpu_us; /* when it was measured */
        double percent;           /* of one processor, in the time before that */
    } load;
    bool paused;
    bool ending;
};

/* route.c */
extern const struct link_handlers route_agent_handlers;
/* What clients ask for and send. */
void route_open(struct client *client, const struct frame *frame);
void route_forward(struct client *client, const struct frame *frame);
/* The same for services of the keeper. NULL when there are too many operations already. */
struct route *route_start(struct keeper *keeper, enum operation operation, const struct buf *fields,
                          const struct route_user *user, void *owner);
/* At most route->to_agent bytes. */
void route_send(struct keeper *keeper, struct route *route, const void *bytes, size_t length);
void route_send_eof(struct keeper *keeper, const struct route *route);
/* Lets the agent send that many more bytes. */
void route_grant(struct keeper *keeper, struct route *route, size_t length);
/* Ends the operation; its user hears no more of it. */
void route_cancel(struct keeper *keeper, struct route *route);
/* While it waits for the inside it does not count as use of the sandbox. */
void route_park(struct keeper *keeper, struct route *route);
void route_unpark(struct keeper *keeper, struct route *route);
/* The client is gone: what it started is cancelled. */
void route_abandon(struct keeper *keeper, struct client *client);
/* The sandbox is gone: every operation ends with this error. */
void route_end_all(struct keeper *keeper, const struct error *reason);

/* keeper_client.c */
void client_add(struct keeper *keeper, int fd, bool is_owner, const struct buf *early);
/* Answers the owner's OP_START, if there is an owner still. */
void client_answer_owner(struct keeper *keeper, uint32_t stream, const struct error *failure);
void client_fail(struct client *client, uint32_t stream, const struct error *err);

/* keeper.c */
/* Ends the machine at once. */
void keeper_kill_machine(struct keeper *keeper);
/* Ends the sandbox; the loop runs out afterwards. */
void keeper_end(struct keeper *keeper, enum error_code code, const char *reason);
/* Something happened: the idle deadline moves. */
void keeper_touch(struct keeper *keeper);
/* What OP_STATUS and OP_START answer; for free(). */
char *keeper_status(struct keeper *keeper);
