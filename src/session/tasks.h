/*
 * The session layer's work in the background: "session_cleanup" ends sessions whose time is over,
 * "orphan_cleanup" ends sandboxes that the session layer has made and that belong to no session any
 * more, such as those of a start that was given up. Sandboxes of others are never touched.
 *
 * The answers are objects for json_decref; docs/sessions.md has their members.
 */
#pragma once

#include "session/sessions.h"

json_t *tasks_pause(struct sessions *sessions);
json_t *tasks_resume(struct sessions *sessions);
json_t *tasks_restart(struct sessions *sessions);
json_t *tasks_status(struct sessions *sessions);
json_t *tasks_health(struct sessions *sessions);

struct orphan_wait {
    /* `count` sandboxes were ended. */
    void (*swept)(struct orphan_wait *wait, size_t count);
    void *context;
    size_t count;
    struct orphan_wait *next;
};

/* Looks for orphans now. */
void tasks_sweep_orphans(struct sessions *sessions, struct orphan_wait *wait);

struct shutdown {
    /* All sessions are over, or the time is; the report is for json_decref. */
    void (*ended)(struct shutdown *shutdown, json_t *report);
    void *context;
    /* For the library: */
    struct sessions *sessions;
    uv_timer_t timer;
    uint64_t began_us, budget_ms;
    json_int_t stopped;
};

/* Ends all sessions within so many seconds and pauses the tasks. ERROR_BUSY when under way. */
int tasks_shut_down(struct sessions *sessions, struct shutdown *shutdown, uint64_t budget_ms,
                    struct error *err);
