/*
 * Sandboxes of a project that are started together: each as soon as those it depends on are ready,
 * all others at the same time. A sandbox is ready when its start command runs and, if it publishes
 * ports, when the first of them takes a connection inside. When one fails, or the caller is
 * interrupted, those that were started are stopped again.
 */
#pragma once

#include "project/project.h"
#include "sandbox/client.h"

enum fleet_state {
    FLEET_WAITING, /* for those that it depends on */
    FLEET_STARTING,
    FLEET_PROBING, /* its port */
    FLEET_READY,
    FLEET_OVER, /* its start command has ended */
    FLEET_GONE,
};

struct fleet_member {
    const struct project_sandbox *sandbox;
    struct sandbox_config config;
    /* The rest is the fleet's. */
    struct fleet *fleet;
    enum fleet_state state;
    int connection;
    bool is_open; /* its client */
    bool connected;
    bool stopping;
    uint64_t pid; /* of its start command; 0: it has none */
    struct sandbox_client client;
    struct client_call start, output, probe, stop;
    uv_timer_t retry;
    unsigned retry_ms;
    uint64_t deadline_ms;
};

struct fleet_events {
    void (*ready)(struct fleet_member *member);
    void (*output)(struct fleet_member *member, enum channel channel, const uint8_t *bytes,
                   size_t length);
    /* Its start command is over. */
    void (*ended)(struct fleet_member *member, const struct outcome *outcome);
    void (*failed)(struct fleet_member *member, const struct error *err);
};

struct fleet {
    struct fleet_member *members;
    size_t count;
    const struct fleet_events *events;
    bool stays; /* until all start commands are over or somebody interrupts, and stops them then */
    void *context; /* the caller's */
    /* The rest is its own. */
    uv_loop_t loop;
    uv_signal_t signals[3];
    uv_timer_t patience;
    bool is_ending;
    bool has_failed;
    int signal;    /* that interrupted it, or 0 */
    int exit_code; /* the first that was not 0 */
};

/* A new member, whose config is to be filled in. It may move while others are added. */
struct fleet_member *fleet_add(struct fleet *fleet, const struct project_sandbox *sandbox);
/* Forks: the caller has no other threads and no loop yet.
 * fleet_free afterwards, also on failure. */
int fleet_fork(struct fleet *fleet, struct error *err);
/* Starts them all. Without `stays` it returns when all are ready; has_failed or signal say why they
 * are not. */
void fleet_run(struct fleet *fleet);
void fleet_free(struct fleet *fleet);
