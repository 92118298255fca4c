#include "session/policy.h"

#include <string.h>

const char *session_state_name(enum session_state state)
{
    static const char *const names[SESSION_STATES] = {"creating", "ready", "processing", "error",
                                                      "stopped"};
    return names[state];
}

/* Counts against limits. */
static bool is_active(const struct session_facts *facts)
{
    return facts->state != SESSION_STOPPED;
}

bool policy_is_expired(const struct session_facts *facts, uint64_t now)
{
    bool is_old = facts->lifetime && now - facts->created >= facts->lifetime;
    bool is_idle = facts->users == 0 && facts->idle && now - facts->accessed >= facts->idle;
    bool is_settled = facts->state == SESSION_READY || facts->state == SESSION_ERROR ||
                      facts->state == SESSION_PROCESSING;
    return is_settled && (is_old || is_idle);
}

/* Nothing is lost but what waits to be used. */
static bool is_evictable(const struct session_facts *facts)
{
    return facts->users == 0 && (facts->state == SESSION_READY || facts->state == SESSION_ERROR);
}

/* One set of limits, for the sessions it counts and those that may make room for it. */
struct room {
    const struct session_facts *const *sessions;
    size_t count;
    const struct policy_wish *wish;
    const struct policy_limits *limits;
    bool is_own;
    const struct session_facts **victims;
    struct policy_answer *answer;
};

static bool is_victim(const struct room *room, const struct session_facts *facts)
{
    for (size_t i = 0; i < room->answer->victims; i++) {
        if (room->victims[i] == facts)
            return true;
    }
    return false;
}

static bool is_in_namespace(const struct room *room, const struct session_facts *facts)
{
    return strcmp(facts->namespace, room->wish->namespace) == 0;
}

static bool is_in_group(const struct room *room, const struct session_facts *facts)
{
    return is_in_namespace(room, facts) && strcmp(facts->group, room->wish->group) == 0;
}

static bool counts(const struct room *room, const struct session_facts *facts)
{
    return is_active(facts) && !is_victim(room, facts) &&
           (!room->is_own || is_in_group(room, facts));
}

static bool may_go(const struct room *room, const struct session_facts *facts)
{
    return counts(room, facts) && is_evictable(facts) && is_in_namespace(room, facts);
}

/* NULL when there is room. */
static const char *what_lacks(const struct room *room)
{
    struct policy_answer *answer = room->answer;
    uint64_t sessions = 0, memory = 0;
    for (size_t i = 0; i < room->count; i++) {
        if (counts(room, room->sessions[i])) {
            sessions++;
            memory += room->sessions[i]->memory_mb;
        }
    }
    if (room->limits->sessions && sessions + 1 > room->limits->sessions) {
        answer->current = sessions;
        answer->limit = room->limits->sessions;
        return "sessions";
    }
    if (room->limits->memory_mb && memory + room->wish->memory_mb > room->limits->memory_mb) {
        answer->current = memory;
        answer->limit = room->limits->memory_mb;
        return "memory";
    }
    return NULL;
}

static const struct session_facts *least_recent(const struct room *room)
{
    const struct session_facts *found = NULL;
    for (size_t i = 0; i < room->count; i++) {
        const struct session_facts *facts = room->sessions[i];
        if (may_go(room, facts) && (!found || facts->accessed < found->accessed))
            found = facts;
    }
    return found;
}

static void make_room(const struct room *room)
{
    struct policy_answer *answer = room->answer;
    while ((answer->lacking = what_lacks(room))) {
        const struct session_facts *victim = room->limits->evict ? least_recent(room) : NULL;
        if (!victim)
            return;
        room->victims[answer->victims++] = victim;
    }
}

struct policy_answer policy_make_room(const struct session_facts *const *sessions, size_t count,
                                      const struct policy_wish *wish,
                                      const struct session_facts **victims)
{
    struct policy_answer answer = {0};
    struct room room = {.sessions = sessions,
                        .count = count,
                        .wish = wish,
                        .limits = &wish->own,
                        .is_own = true,
                        .victims = victims,
                        .answer = &answer};
    make_room(&room);
    if (answer.lacking)
        return answer;
    room.limits = &wish->all;
    room.is_own = false;
    make_room(&room);
    return answer;
}
