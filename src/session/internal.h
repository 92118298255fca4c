/* What the files of this folder share. */
#pragma once

#include "session/sessions.h"
#include "session/store.h"

#define WAITING_MAX 64

struct session {
    struct session_facts facts; /* namespace and group are below */
    struct sessions *sessions;
    char *namespace, *id, *group, *template, *image, *language, *flavor;
    char *sandbox; /* the name of the present one */
    char **volumes;
    unsigned cpus;
    uint64_t created_us;
    struct box *box; /* NULL: there is none, or it is being started */
    bool is_starting;
    bool is_new;   /* its sandbox has not been used yet */
    bool is_dirty; /* the store does not know all yet */
    uv_timer_t patience;
    struct box_waiter started, gone;
    struct session_lease *holder;
    struct session_lease *waiting; /* first come, first served */
    struct session_stop *stops;
    struct session *next;
};

/* A repeated piece of work. */
struct task {
    struct sessions *sessions;
    const char *name;
    uv_timer_t timer;
    void (*work)(struct sessions *sessions);
    uint64_t interval_s;
    bool is_running;
    uint64_t cycles;
};

struct orphan_counts {
    uint64_t cycles, cleaned, errors;
    uint64_t began, duration_ms; /* of the last cycle; began is 0 before the first */
    size_t open;                 /* sandboxes that are being ended */
};

struct sessions {
    struct boxes *boxes;
    const struct session_settings *settings;
    struct store *store;
    struct session *first, **last;
    uint64_t opened; /* milliseconds since boot */
    uv_timer_t flush, sweep;
    struct task cleanup, orphans;
    struct orphan_counts orphan_counts;
    struct shutdown *shutdown;
    struct orphan_wait *orphan_waits;
};

/* session.c */
struct session *session_new(struct sessions *sessions, const struct session_request *request,
                            struct session_lease *lease, struct session_failure *failure);
struct session *session_restore(struct sessions *sessions, const struct store_row *row);
void session_stop(struct session *session, const char *why);
bool session_is_usable(const struct session *session);
void session_grant(struct session *session, struct session_lease *lease);
/* Gives it to those whose turn it is. */
void session_serve(struct session *session);
/* When it has changed; what is urgent is written at once. */
void session_mark(struct session *session);
void session_save(struct session *session);
struct session *session_find(struct sessions *sessions, const char *namespace, const char *id);
/* Frees one that is over when nobody has to do with it any more. */
void session_forget(struct session *session);

void session_fail_waiting(struct session *session, const struct session_failure *failure);

/* session_sandbox.c */
/* The lease is that of whoever comes first, or NULL. */
int session_try_start(struct session *session, struct session_lease *lease, struct error *err);
/* A new sandbox for a session that has lost its own. On failure the session is gone. */
int session_restart(struct session *session, struct session_lease *lease,
                    struct session_failure *failure);
/* The same for those who wait, who are told. */
void session_start_for_waiting(struct session *session);
/* One that runs is its sandbox from now on. */
void session_adopt_box(struct session *session, struct box *box);
void session_stop_box(struct session *session);

/* orphans.c */
void orphans_clean(struct sessions *sessions);
/* Not before this returns. */
void orphans_clean_soon(struct sessions *sessions);

/* tasks.c */
void tasks_open(struct sessions *sessions);
/* A session has gone. */
void tasks_notice(struct sessions *sessions);
