#include "session/tasks.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "session/describe.h"
#include "session/internal.h"

/* ---- sessions whose time is over ----------------------------------------------------------- */

static void clean_sessions(struct sessions *sessions)
{
    uint64_t now = clock_monotonic_ms();
    for (struct session *next, *at = sessions->first; at; at = next) {
        next = at->next;
        if (policy_is_expired(&at->facts, now))
            session_stop(at, "its time is over");
    }
}

/* ---- timers -------------------------------------------------------------------------------- */

static struct task *task_at(struct sessions *sessions, size_t i)
{
    return i == 0 ? &sessions->cleanup : &sessions->orphans;
}
#define TASKS 2

static void on_tick(uv_timer_t *timer)
{
    struct task *task = timer->data;
    task->cycles++;
    task->work(task->sessions);
}

static void task_resume(struct task *task)
{
    uv_timer_start(&task->timer, on_tick, task->interval_s * 1000, task->interval_s * 1000);
    task->is_running = true;
}

static void task_pause(struct task *task)
{
    uv_timer_stop(&task->timer);
    task->is_running = false;
}

static void task_open(struct sessions *sessions, struct task *task)
{
    task->sessions = sessions;
    uv_timer_init(sessions->boxes->loop, &task->timer);
    uv_unref((uv_handle_t *)&task->timer);
    task->timer.data = task;
    task_resume(task);
}

void tasks_open(struct sessions *sessions)
{
    sessions->cleanup = (struct task){.name = "session_cleanup",
                                      .work = clean_sessions,
                                      .interval_s = sessions->settings->cleanup_s};
    sessions->orphans = (struct task){.name = "orphan_cleanup",
                                      .work = orphans_clean,
                                      .interval_s = sessions->settings->orphan_s};
    task_open(sessions, &sessions->cleanup);
    task_open(sessions, &sessions->orphans);
    uv_timer_init(sessions->boxes->loop, &sessions->sweep);
    sessions->sweep.data = sessions;
    orphans_clean_soon(sessions);
}

/* ---- control ------------------------------------------------------------------------------- */

static json_t *report_new(const char *key, json_t *names, const char *none)
{
    return json_pack("{s:o, s:s, s:o, s:[]}", "timestamp", describe_time(clock_realtime_us()),
                     "status", json_array_size(names) ? "success" : none, key, names, "errors");
}

json_t *tasks_pause(struct sessions *sessions)
{
    json_t *names = json_array();
    for (size_t i = 0; i < TASKS; i++) {
        struct task *task = task_at(sessions, i);
        if (task->is_running)
            json_array_append_new(names, json_string(task->name));
        task_pause(task);
    }
    return report_new("tasks_paused", names, "no_tasks_to_pause");
}

static json_t *resume_all(struct sessions *sessions)
{
    json_t *names = json_array();
    for (size_t i = 0; i < TASKS; i++) {
        struct task *task = task_at(sessions, i);
        if (task->is_running)
            continue;
        task_resume(task);
        json_array_append_new(names, json_string(task->name));
    }
    return names;
}

json_t *tasks_resume(struct sessions *sessions)
{
    return report_new("tasks_resumed", resume_all(sessions), "no_tasks_to_resume");
}

/* Those that run are well: there is nothing in them that could end. */
json_t *tasks_restart(struct sessions *sessions)
{
    return report_new("actions_taken", resume_all(sessions), "no_action_needed");
}

/* ---- status -------------------------------------------------------------------------------- */

static void describe_task(json_t *component, const struct task *task, const char *prefix)
{
    const struct {
        const char *suffix;
        json_t *value;
    } members[] = {{"task_exists", json_true()},
                   {"task_healthy", json_boolean(task->is_running)},
                   {"task_done", json_boolean(!task->is_running)},
                   {"task_cancelled", json_boolean(!task->is_running)},
                   {"task_result", json_string(task->is_running ? "running" : "cancelled")},
                   {"interval_seconds", json_integer((json_int_t)task->interval_s)}};
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
        cleanup_free char *key = xasprintf("%s_%s", prefix, members[i].suffix);
        json_object_set_new(component, key, members[i].value);
    }
    json_object_set_new(component, "status",
                        json_string(task->is_running ? "healthy" : "unhealthy"));
}

static json_t *describe_orphans(const struct sessions *sessions)
{
    const struct orphan_counts *counts = &sessions->orphan_counts;
    uint64_t tried = counts->cleaned + counts->errors;
    double cycles = counts->cycles ? (double)counts->cycles : 1;
    json_t *last = json_null();
    if (counts->began)
        last = describe_time(clock_realtime_us() - (clock_monotonic_ms() - counts->began) * 1000);
    return json_pack("{s:I, s:I, s:I, s:o, s:f, s:f, s:f}", "total_cleanup_cycles",
                     (json_int_t)counts->cycles, "total_orphans_cleaned",
                     (json_int_t)counts->cleaned, "cleanup_errors", (json_int_t)counts->errors,
                     "last_cleanup_time", last, "last_cleanup_duration_seconds",
                     (double)counts->duration_ms / 1000, "average_orphans_per_cycle",
                     (double)counts->cleaned / cycles, "cleanup_success_rate",
                     tried ? (double)counts->cleaned / (double)tried : 1.0);
}

static double uptime(const struct sessions *sessions)
{
    return (double)(clock_monotonic_ms() - sessions->opened) / 1000;
}

static bool is_all_running(const struct sessions *sessions)
{
    return sessions->cleanup.is_running && sessions->orphans.is_running;
}

json_t *tasks_status(struct sessions *sessions)
{
    json_t *manager =
        json_pack("{s:I, s:f, s:I}", "session_timeout_seconds",
                  (json_int_t)sessions->settings->idle_s, "manager_uptime_seconds",
                  uptime(sessions), "cleanup_cycles", (json_int_t)sessions->cleanup.cycles);
    json_t *resources = describe_orphans(sessions);
    describe_task(manager, &sessions->cleanup, "cleanup");
    describe_task(resources, &sessions->orphans, "orphan_cleanup");
    json_object_set_new(resources, "manager_uptime_seconds", json_real(uptime(sessions)));
    return json_pack("{s:b, s:o, s:{s:o, s:o}, s:s}", "wrapper_started", 1, "timestamp",
                     describe_time(clock_realtime_us()), "components", "session_manager", manager,
                     "resource_manager", resources, "overall_status",
                     is_all_running(sessions) ? "healthy" : "unhealthy");
}

json_t *tasks_health(struct sessions *sessions)
{
    static const char *const names[TASKS] = {"session_manager", "resource_manager"};
    json_t *unhealthy = json_array(), *components = json_object();
    for (size_t i = 0; i < TASKS; i++) {
        bool runs = task_at(sessions, i)->is_running;
        json_object_set_new(components, names[i], json_string(runs ? "healthy" : "unhealthy"));
        if (!runs)
            json_array_append_new(unhealthy, json_string(names[i]));
    }
    return json_pack("{s:s, s:o, s:o, s:[], s:o, s:f}", "status",
                     is_all_running(sessions) ? "healthy" : "unhealthy", "timestamp",
                     describe_time(clock_realtime_us()), "components", components,
                     "error_components", "unhealthy_components", unhealthy, "uptime_seconds",
                     uptime(sessions));
}

/* ---- shutdown ------------------------------------------------------------------------------ */

static size_t count_sessions(const struct sessions *sessions)
{
    size_t count = 0;
    for (const struct session *at = sessions->first; at; at = at->next)
        count++;
    return count;
}

static void on_shutdown_timer_closed(uv_handle_t *handle)
{
    struct shutdown *shutdown = handle->data;
    struct sessions *sessions = shutdown->sessions;
    uint64_t now = clock_realtime_us();
    size_t left = count_sessions(sessions);
    json_t *errors = json_array();
    if (left > 0)
        json_array_append_new(errors, json_sprintf("%zu sessions had not ended in time", left));
    json_t *report =
        json_pack("{s:o, s:o, s:f, s:f, s:[s,s], s:i, s:I, s:s, s:o}", "start_time",
                  describe_time(shutdown->began_us), "end_time", describe_time(now),
                  "duration_seconds", (double)(now - shutdown->began_us) / 1e6, "timeout_seconds",
                  (double)shutdown->budget_ms / 1000, "components_stopped", "session_manager",
                  "resource_manager", "components_expected", TASKS, "sessions_stopped",
                  shutdown->stopped - (json_int_t)left, "status",
                  left ? "partial_success" : "success", "errors", errors);
    shutdown->ended(shutdown, report);
}

static void end_shutdown(uv_timer_t *timer)
{
    struct shutdown *shutdown = timer->data;
    shutdown->sessions->shutdown = NULL;
    uv_close((uv_handle_t *)timer, on_shutdown_timer_closed);
}

void tasks_notice(struct sessions *sessions)
{
    if (sessions->shutdown && !sessions->first)
        end_shutdown(&sessions->shutdown->timer);
}

int tasks_shut_down(struct sessions *sessions, struct shutdown *shutdown, uint64_t budget_ms,
                    struct error *err)
{
    if (sessions->shutdown)
        return error_set(err, ERROR_BUSY, "the sessions are being shut down already");
    json_decref(tasks_pause(sessions));
    shutdown->sessions = sessions;
    shutdown->began_us = clock_realtime_us();
    shutdown->budget_ms = budget_ms;
    shutdown->stopped = (json_int_t)count_sessions(sessions);
    uv_timer_init(sessions->boxes->loop, &shutdown->timer);
    shutdown->timer.data = shutdown;
    uv_timer_start(&shutdown->timer, end_shutdown, sessions->first ? budget_ms : 0, 0);
    for (struct session *next, *at = sessions->first; at; at = next) {
        next = at->next;
        session_stop(at, "all sessions are shut down");
    }
    sessions->shutdown = shutdown;
    return 0;
}
