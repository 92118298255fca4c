/*
 * Sessions: a client's lease on a sandbox, by an id within a namespace. A session is made when it
 * is first asked for, keeps its sandbox between calls, and ends when it is stopped, was idle for
 * too long or is too old, or when a new one needs its room. What is known about them survives the
 * process, see store.h; sandboxes survive it anyway.
 *
 * Everything happens on one libuv loop, and nothing blocks. No function here calls back before it
 * returns. run.h, session_file.h, session_install.h and tasks.h offer what is built on this.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <uv.h>

#include "sandbox/boxes.h"
#include "session/failure.h"
#include "session/policy.h"
#include "session/settings.h"

struct sessions;
struct session;

/* Finds the sessions of the process before in the store. Settings and boxes must outlive it. */
struct sessions *sessions_open(struct boxes *boxes, const struct session_settings *settings,
                               const char *store_path, struct error *err);
/* Writes down what is left to be; sandboxes go on. */
void sessions_close(struct sessions *sessions);

/* ---- using a session ----------------------------------------------------------------------- */

/* Which session, and how it is to be if it is made. NULL and 0 mean: as the settings say. */
struct session_request {
    const char *namespace;
    const char *id;  /* NULL: a new session; one that is unknown is made with this id */
    bool must_exist; /* and not here */
    bool shared;     /* beside other calls, such as reading a file; otherwise one at a time */
    bool wait;       /* for its turn; otherwise a session that has a call is FAILURE_BUSY */
    const char *template, *flavor;
    const char *image, *language; /* instead of a template's */
    char *const *volumes;         /* HOST:GUEST[:ro], beside those of the settings */
    uint64_t idle_s, lifetime_s;
    const char *group; /* sessions that `limits` counts, which only add to those of the settings */
    struct policy_limits limits;
};

struct session_lease {
    /* The session is ready to be used, or (failure is not NULL) will not be: no release then. */
    void (*ready)(struct session_lease *lease, const struct session_failure *failure);
    /* What it will do first, as of launch_keeper; false: it does not know. A sandbox that has to be
     * started gets it together with its settings, and `came_along` is true then. May be NULL. */
    bool (*call)(const struct session_lease *lease, const struct session *session,
                 struct buf *frames);
    void *context;
    /* For the reader: */
    struct session *session;
    bool created; /* its sandbox was started for this call */
    bool came_along;
    /* For the library: */
    bool shared, granted;
    struct session_lease *next;
};

/* 1: ready at once; 0: `ready` will be called; negative: see the failure. */
int session_acquire(struct sessions *sessions, struct session_lease *lease,
                    const struct session_request *request, struct session_failure *failure);
/* After use. A session whose call has failed says so until the next one. */
void session_release(struct session_lease *lease, bool failed);
/* Does not want it any more, whether it is ready or not. `ready` is not called. */
void session_abandon(struct session_lease *lease);

/* Of a lease that is ready. The client is NULL when the sandbox has gone meanwhile. */
struct sandbox_client *session_client(const struct session_lease *lease);
const char *session_id(const struct session *session);
const char *session_namespace(const struct session *session);
const char *session_template(const struct session *session);
const char *session_language(const struct session *session);

/* Whether a text can be an id of a session: 1 to 64 letters, digits, _ and -. */
int session_check_id(const char *id, struct session_failure *failure);

/* ---- managing sessions --------------------------------------------------------------------- */

/* Counts as a call for its idle time. Negative: FAILURE_NO_SESSION. */
int sessions_touch(struct sessions *sessions, const char *namespace, const char *id,
                   struct session_failure *failure);

/* {"session_id", "template", "flavor", "status", "created_at", "last_accessed", "namespace",
 * "sandbox_name", …}, for json_decref; NULL when there is none. */
json_t *sessions_get(struct sessions *sessions, const char *namespace, const char *id);
/* A list of these, in order of their making; a NULL namespace means all. */
json_t *sessions_list(struct sessions *sessions, const char *namespace);
/* SESSION_STOPPED also for one that is unknown. */
enum session_state sessions_state(struct sessions *sessions, const char *namespace, const char *id);

struct session_stop {
    void (*stopped)(struct session_stop *stop);
    void *context;
    struct session_stop *next;
};

/* 0: `stopped` is called when its sandbox is gone, and calls under way fail. */
int sessions_stop(struct sessions *sessions, const char *namespace, const char *id,
                  struct session_stop *stop, struct session_failure *failure);

/* {"active_sessions", "max_sessions", "sessions_by_flavor", "total_memory_mb", "total_cpus",
 * "uptime_seconds", …}; a NULL namespace means all. */
json_t *sessions_statistics(struct sessions *sessions, const char *namespace);
/* [{"host_path", "container_path"}] of the settings. */
json_t *sessions_volumes(const struct sessions *sessions);
const struct session_settings *sessions_settings(const struct sessions *sessions);
