/*
 * What becomes of sessions, decided from plain facts and a time that is given: whose time is over,
 * who makes room for a new one, and when there is no room. Does nothing itself.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum session_state {
    SESSION_CREATING,   /* its sandbox is being started */
    SESSION_READY,      /* it waits for calls */
    SESSION_PROCESSING, /* a call runs */
    SESSION_ERROR,      /* the last call failed, or its sandbox ended; the next one may do better */
    SESSION_STOPPED,    /* it is over, though its sandbox may take a moment to end */
    SESSION_STATES,
};

const char *session_state_name(enum session_state state);

struct session_facts {
    const char *namespace;
    const char *group; /* sessions that a client counts together; "" when it does not */
    enum session_state state;
    unsigned users; /* calls that have it or wait for it */
    unsigned memory_mb;
    /* Times are milliseconds of one clock. */
    uint64_t created, accessed;
    uint64_t idle, lifetime; /* how long it may; 0: for ever */
};

/* Idle for too long while nobody uses it, or simply too old. */
bool policy_is_expired(const struct session_facts *facts, uint64_t now);

struct policy_limits {
    uint64_t sessions, memory_mb; /* 0: any */
    bool evict;
};

/* A session that is to be. */
struct policy_wish {
    const char *namespace, *group;
    unsigned memory_mb;
    struct policy_limits all; /* of all sessions; only those of the namespace make room */
    struct policy_limits own; /* of those of the namespace and group */
};

struct policy_answer {
    const char *lacking; /* "sessions" or "memory"; NULL: there is room when the victims are gone */
    uint64_t current, limit; /* of what is lacking */
    size_t victims;          /* that the caller's array now has, least recently used first */
};

/* `victims` has room for `count` of them. */
struct policy_answer policy_make_room(const struct session_facts *const *sessions, size_t count,
                                      const struct policy_wish *wish,
                                      const struct session_facts **victims);
