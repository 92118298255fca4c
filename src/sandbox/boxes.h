/*
 * The sandboxes that a process such as the server has to do with, and its connections to their
 * keepers. Connections are made when somebody asks for a sandbox, whoever started it, and kept
 * until its keeper goes.
 */
#pragma once

#include "sandbox/client.h"
#include "sandbox/config.h"
#include "sandbox/launcher.h"
#include "sandbox/pool.h"

struct box;

struct boxes {
    uv_loop_t *loop;
    struct launcher *launcher;
    struct pools *pools; /* NULL: nothing is made ahead */
    bool attached;       /* those that it starts end when this process does */
    /* A start has ended; err is NULL when it went well. May be NULL. */
    void (*started)(const struct box *box, uint64_t duration_us, const struct error *err);
    void *context;
    struct box *first;
};

/* Somebody who waits for a sandbox to be ready, or to be gone. */
struct box_waiter {
    /* err is NULL when it went well. The waiter is the caller's again. */
    void (*done)(struct box_waiter *waiter, const struct error *err);
    void *context;
    struct box_waiter *next;
};

struct box {
    struct boxes *boxes;
    char *namespace, *name;
    struct sandbox_client client;
    struct launch launch;
    struct client_call starting, unwanted;
    bool from_pool;       /* its keeper was made ahead… */
    bool uses_warmth;     /* …from what it may have used up: launcher_renew_warmth */
    uint64_t began_us;    /* of a start */
    uint64_t launched_us; /* when it had a keeper */
    const char *status;   /* while waiters hear that it has started: what its keeper says of it */
    uv_timer_t patience;  /* runs while it may have calls */
    uint64_t heard;       /* bytes that had come from its keeper when the timer was set */
    struct client_call ping;
    bool is_pinging;
    unsigned proxied; /* connections to its ports that pass through the server */
    bool is_ready;    /* OP_START has ended well, or it was running already */
    bool starts_anew; /* once this connection is closed */
    struct box_waiter *for_start;
    struct box_waiter *for_end;
    struct box *next;
};

/* One that runs, or NULL and the error: ERROR_NOT_FOUND, or ERROR_BUSY while it starts or ends. */
struct box *boxes_find(struct boxes *boxes, const char *namespace, const char *name,
                       struct error *err);
/* The same for one that is being started; NULL when it is not. */
struct box *boxes_find_starting(struct boxes *boxes, const char *namespace, const char *name);
/*
 * Starts one that does not exist yet. NULL: see the error. Of its image the reference is enough;
 * what the image decides is filled in. `call` may be NULL, or is as of launch_keeper: the waiters
 * for the start find it under way as client.has_call; one that none of them joins is cancelled.
 */
struct box *boxes_start(struct boxes *boxes, struct sandbox_config *config, const struct buf *call,
                        struct error *err);
void box_await_start(struct box *box, struct box_waiter *waiter);
/* Waits until the keeper has closed its connection: its name is free then. */
void box_await_end(struct box *box, struct box_waiter *waiter);
/* Ends the sandbox and waits for that; a keeper that does not answer in time is killed. The
 * waiter may be NULL. */
void box_stop(struct box *box, struct box_waiter *waiter);
