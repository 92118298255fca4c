/* What is told about sessions. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "session/describe.h"
#include "session/internal.h"
#include "session/volumes.h"

json_t *describe_time(uint64_t realtime_us)
{
    char text[64];
    struct tm parts;
    time_t seconds = (time_t)(realtime_us / 1000000);
    gmtime_r(&seconds, &parts);
    size_t used = strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
    snprintf(text + used, sizeof text - used, ".%06u+00:00", (unsigned)(realtime_us % 1000000));
    return json_string(text);
}

/* A time since boot, as the clock on the wall would have shown it. */
static json_t *describe_moment(uint64_t monotonic_ms)
{
    return describe_time(clock_realtime_us() - (clock_monotonic_ms() - monotonic_ms) * 1000);
}

static json_t *describe(const struct session *session)
{
    const struct session_facts *facts = &session->facts;
    bool has_template = session->template[0];
    json_t *info = json_pack(
        "{s:s, s:s?, s:s, s:s, s:s, s:o, s:o, s:s, s:s}", "session_id", session->id, "template",
        has_template ? session->template : NULL, "image", session->image, "flavor", session->flavor,
        "status", session_state_name(facts->state), "created_at",
        describe_time(session->created_us), "last_accessed", describe_moment(facts->accessed),
        "namespace", session->namespace, "sandbox_name", session->sandbox);
    json_object_set_new(info, "idle_timeout_seconds", json_integer((json_int_t)facts->idle / 1000));
    json_object_set_new(info, "lifetime_seconds", json_integer((json_int_t)facts->lifetime / 1000));
    if (session->volumes)
        json_object_set_new(info, "volumes", volumes_json(session->volumes));
    return info;
}

json_t *sessions_get(struct sessions *sessions, const char *namespace, const char *id)
{
    const struct session *session = session_find(sessions, namespace, id);
    return session ? describe(session) : NULL;
}

static bool is_shown(const struct session *session, const char *namespace)
{
    return session->facts.state != SESSION_STOPPED &&
           (!namespace || strcmp(session->namespace, namespace) == 0);
}

json_t *sessions_list(struct sessions *sessions, const char *namespace)
{
    json_t *list = json_array();
    for (const struct session *at = sessions->first; at; at = at->next) {
        if (is_shown(at, namespace))
            json_array_append_new(list, describe(at));
    }
    return list;
}

static void count_one(json_t *counts, const char *key)
{
    json_int_t count = json_integer_value(json_object_get(counts, key));
    json_object_set_new(counts, key, json_integer(count + 1));
}

json_t *sessions_statistics(struct sessions *sessions, const char *namespace)
{
    const struct session_settings *settings = sessions->settings;
    json_t *flavors = json_object(), *states = json_object();
    json_int_t active = 0, memory = 0, cpus = 0;
    for (const struct session *at = sessions->first; at; at = at->next) {
        if (!is_shown(at, namespace))
            continue;
        active++;
        memory += at->facts.memory_mb;
        cpus += at->cpus;
        count_one(flavors, at->flavor);
        count_one(states, session_state_name(at->facts.state));
    }
    json_t *statistics =
        json_pack("{s:I, s:I, s:o, s:o, s:I, s:I, s:f}", "active_sessions", active, "max_sessions",
                  (json_int_t)settings->max_sessions, "sessions_by_flavor", flavors,
                  "sessions_by_status", states, "total_memory_mb", memory, "total_cpus", cpus,
                  "uptime_seconds", (double)(clock_monotonic_ms() - sessions->opened) / 1000);
    json_object_set_new(statistics, "max_total_memory_mb",
                        settings->max_memory_mb ? json_integer((json_int_t)settings->max_memory_mb)
                                                : json_null());
    return statistics;
}
