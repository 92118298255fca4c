/* Shared by the keeper's files only. */
#pragma once

#include <uv.h>

#include "engine/engine.h"
#include "proto/protocol.h"
#include "sandbox/config.h"
#include "sandbox/link.h"
#include "sandbox/output_log.h"

struct client;

/* One operation on its way between a client and the agent. */
struct route {
    struct client *client; /* NULL when it went away */
    uint32_t client_stream;
    uint64_t to_client; /* bytes the agent may still send */
    uint64_t to_agent;  /* bytes the client may still send */
    unsigned notices;   /* EVENT and EOF frames seen */
    bool in_use;
    bool prints; /* its output goes to the log: contents of files do not */
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
    unsigned active;                           /* routes in use */
    struct output_log log;
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
void route_open(struct client *client, const struct frame *frame);
void route_forward(struct client *client, const struct frame *frame);
/* The client is gone: what it started is cancelled. */
void route_abandon(struct keeper *keeper, struct client *client);
/* The sandbox is gone: every operation ends with this error. */
void route_end_all(struct keeper *keeper, const struct error *reason);

/* keeper_client.c */
void client_add(struct keeper *keeper, int fd, bool is_owner, const struct buf *early);
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
