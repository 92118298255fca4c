/* Shared by the keeper's files only. */
#pragma once

#include <uv.h>

#include "base/timing.h"
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

struct save_request {
    struct client *client; /* NULL: it has left */
    uint32_t stream;
    char *folder;
    struct save_request *next;
};

/* OP_SAVE, one after the other; see keeper_save.c. */
struct saving {
    struct save_request *requests; /* the first is under way */
    struct route *hold;
    bool is_writing; /* the agent holds, and the thread is at work */
    uv_timer_t patience;
    uv_thread_t writing;
    uv_async_t written;
    int result;
    struct error err;
};

/* The end that waits until everything is written; see keeper_finish.c. */
struct finish {
    bool begun;
    enum error_code code;
    const char *reason;
    struct client *client; /* who asked, or NULL */
    uint32_t stream;
    uv_timer_t patience;
};

struct keeper {
    uv_loop_t loop;
    int owner; /* the socket of whoever started us */
    struct sandbox_config config;
    char *folder;
    char *disk;   /* the file that outlives us; NULL: nothing is kept */
    char *origin; /* the folder that the machine starts from; NULL: it is no copy */
    int lock;
    struct machine *machine;
    struct link agent;
    struct buf answers; /* of the agent, while the loop did not run yet */
    struct client *clients;
    struct route routes[PROTOCOL_STREAMS_MAX]; /* the agent's stream n is routes[n - 1] */
    unsigned active;                           /* routes in use and not parked */
    struct network network;
    struct saving saving;
    struct finish finish;
    struct output_log log;
    struct start_command command;
    int listening; /* socket */
    uv_poll_t listener;
    uv_poll_t machine_exit;
    uv_poll_t console;
    uv_timer_t idle;
    uv_timer_t lifetime;
    uv_signal_t terminate;
    uv_thread_t enclosing; /* machine_enclose, on the side */
    bool is_enclosing;
    bool is_ahead;       /* its machine was made before anybody asked for it */
    bool is_named;       /* somebody has */
    uint64_t started_us; /* since 1970 */
    uint64_t began_us;   /* the same by a clock that nobody sets */
    uint64_t cpu_us;     /* what the machine had used by then */
    struct {
        uint64_t time_us, cpu_us; /* when it was measured */
        double percent;           /* of one processor, in the time before that */
    } load;
    struct timing timing; /* of the start */
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
void client_add(struct keeper *keeper, int fd);
/* The owner, and its call that came along with OP_START, which is taken out of `early`. */
void client_add_owner(struct keeper *keeper, struct buf *early);
/* What else has come. */
void client_preload_owner(struct keeper *keeper, const struct buf *early);
/* Answers the owner's OP_START, if there is an owner still. */
void client_answer_owner(struct keeper *keeper, uint32_t stream, const struct error *failure);
void client_fail(struct client *client, uint32_t stream, const struct error *err);
void client_answer(struct client *client, uint32_t stream, const struct outcome *outcome);

/* keeper_save.c */
void save_init(struct keeper *keeper);
void save_open(struct client *client, const struct frame *frame);
/* The client is gone. */
void save_abandon(struct keeper *keeper, const struct client *client);
/* Returns when nobody uses the machine on the side any more, which is dead by then. */
void save_break_off(struct keeper *keeper);
/* Tells a machine that stood still what time it is. */
void save_set_clock(struct keeper *keeper);

/* keeper_finish.c */
/* Ends the sandbox, after it has written everything out where that is kept. */
void finish_open(struct keeper *keeper, enum error_code code, const char *reason);
void finish_stop(struct client *client, uint32_t stream);
void finish_abandon(struct keeper *keeper, const struct client *client);
/* It cannot act any more: whoever stopped it hears of it. */
void finish_answer(struct keeper *keeper);

/* origin.c */
/* Fetches what a copy starts from, and the settings that come with it. */
int origin_fetch(struct keeper *keeper, struct error *err);
/* The machine has started: it is not needed any more. */
void origin_release(struct keeper *keeper);

/* keeper_ahead.c: between the owner's OP_PREPARE and its OP_START. */
/* Makes the machine, which goes on when somebody wants it: OP_START, or an error. */
int ahead_prepare(struct keeper *keeper, struct buf *in, struct error *err);

/* keeper_start.c, before the loop: these block, and are cancelled when the owner goes away. */
/* The stream of the owner's OP_START. */
#define START_STREAM 1
/* Something of the owner's into `in`. A negative timeout: as long as there is an owner. */
int keeper_hear_owner(const struct keeper *keeper, struct buf *in, int timeout_ms,
                      struct error *err);
/* The owner's next request, whose settings are taken over: OP_PREPARE or OP_START. What came behind
 * it stays in `in`. */
int keeper_read_request(struct keeper *keeper, struct buf *in, struct error *err);
/* Everything between OP_START and a machine with its settings. What came behind OP_START is on its
 * way then, too. */
int keeper_start(struct keeper *keeper, struct buf *early, struct error *err);
int keeper_listen(struct keeper *keeper, struct error *err);
/* Empty ones, to be filled at the start: file systems take their time over new files when many were
 * removed lately. */
int keeper_create_files(struct keeper *keeper, struct error *err);
int keeper_start_machine(struct keeper *keeper, struct error *err);
/* Makes the machine unlike its twins and gives it what was asked for. */
int keeper_adopt(struct keeper *keeper, struct error *err);
void keeper_answer_owner(const struct keeper *keeper, const struct outcome *outcome);

/* keeper.c, the loop */
/* The loop of a keeper that has a machine; it runs later. */
int keeper_make_loop(struct keeper *keeper, struct error *err);
/* What its settings want the loop to look after. */
int keeper_watch(struct keeper *keeper, struct error *err);
/* Ends the machine at once: it cannot act any more. */
void keeper_kill_machine(struct keeper *keeper);
/* Ends the sandbox; the loop runs out afterwards. */
void keeper_end(struct keeper *keeper, enum error_code code, const char *reason);
/* The same when the machine has ended by itself, with its own reason where that is known. */
void keeper_lost_machine(struct keeper *keeper);
/* Something happened: the idle deadline moves. */
void keeper_touch(struct keeper *keeper);

/* keeper_status.c */
/* What OP_STATUS and OP_START answer; for free(). */
char *keeper_status(struct keeper *keeper);
char *keeper_start_report(const struct keeper *keeper);
