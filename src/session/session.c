/* One session: how it is made, found again and stopped; calls wait for it and take turns. */
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "session/internal.h"

#define FLUSH_MS 1000

/* ---- the store ----------------------------------------------------------------------------- */

void session_save(struct session *session)
{
    json_t *list = json_array();
    for (size_t i = 0; session->volumes && session->volumes[i]; i++)
        json_array_append_new(list, json_string(session->volumes[i]));
    cleanup_free char *volumes = json_dumps(list, JSON_COMPACT);
    json_decref(list);
    const struct session_facts *facts = &session->facts;
    store_put(session->sessions->store, &(struct store_row){.namespace = session->namespace,
                                                            .sandbox = session->sandbox,
                                                            .id = session->id,
                                                            .group = session->group,
                                                            .template = session->template,
                                                            .image = session->image,
                                                            .language = session->language,
                                                            .flavor = session->flavor,
                                                            .volumes = volumes,
                                                            .state = facts->state,
                                                            .cpus = session->cpus,
                                                            .memory_mb = facts->memory_mb,
                                                            .created_us = session->created_us,
                                                            .created = facts->created,
                                                            .accessed = facts->accessed,
                                                            .idle = facts->idle,
                                                            .lifetime = facts->lifetime});
    session->is_dirty = false;
}

static void on_flush(uv_timer_t *timer)
{
    struct sessions *sessions = timer->data;
    store_begin(sessions->store);
    for (struct session *at = sessions->first; at; at = at->next) {
        if (at->is_dirty)
            session_save(at);
    }
    store_end(sessions->store);
}

void session_mark(struct session *session)
{
    session->is_dirty = true;
    if (!uv_is_active((uv_handle_t *)&session->sessions->flush))
        uv_timer_start(&session->sessions->flush, on_flush, FLUSH_MS, 0);
}

/* ---- the list ------------------------------------------------------------------------------ */

static struct session *allocate(struct sessions *sessions)
{
    struct session *session = xcalloc(1, sizeof *session);
    session->sessions = sessions;
    uv_timer_init(sessions->boxes->loop, &session->patience);
    uv_unref((uv_handle_t *)&session->patience);
    session->patience.data = session;
    *sessions->last = session;
    sessions->last = &session->next;
    return session;
}

static void on_freed(uv_handle_t *handle)
{
    struct session *session = handle->data;
    free(session->namespace);
    free(session->id);
    free(session->group);
    free(session->template);
    free(session->image);
    free(session->language);
    free(session->flavor);
    free(session->sandbox);
    strv_free(session->volumes);
    free(session);
}

static void unlink_session(struct session *session)
{
    struct sessions *sessions = session->sessions;
    struct session **at = &sessions->first;
    while (*at != session)
        at = &(*at)->next;
    *at = session->next;
    if (sessions->last == &session->next)
        sessions->last = at;
}

void session_forget(struct session *session)
{
    if (session->facts.state != SESSION_STOPPED || session->box || session->is_starting)
        return;
    struct session_stop *next, *stop = steal_pointer(&session->stops);
    struct sessions *sessions = session->sessions;
    for (; stop; stop = next) {
        next = stop->next;
        stop->stopped(stop);
    }
    if (session->facts.users > 0)
        return;
    unlink_session(session);
    uv_close((uv_handle_t *)&session->patience, on_freed);
    tasks_notice(sessions);
}

struct session *session_find(struct sessions *sessions, const char *namespace, const char *id)
{
    struct session *at = sessions->first;
    while (at && (at->facts.state == SESSION_STOPPED || strcmp(at->id, id) != 0 ||
                  strcmp(at->namespace, namespace) != 0))
        at = at->next;
    return at;
}

/* ---- turns --------------------------------------------------------------------------------- */

bool session_is_usable(const struct session *session)
{
    return session->box && !session->is_starting && !session->box->client.link.is_closing;
}

void session_grant(struct session *session, struct session_lease *lease)
{
    lease->granted = true;
    lease->created = session->is_new;
    session->is_new = false;
    if (!lease->shared) {
        session->holder = lease;
        session->facts.state = SESSION_PROCESSING;
    }
}

/* Takes the first that can go now out of the queue. */
static struct session_lease *next_in_turn(struct session *session)
{
    struct session_lease **at = &session->waiting;
    while (*at && !(*at)->shared && session->holder)
        at = &(*at)->next;
    struct session_lease *lease = *at;
    if (lease)
        *at = lease->next;
    return lease;
}

void session_serve(struct session *session)
{
    struct session_lease *lease;
    if (!session->waiting || session->is_starting || session->facts.state == SESSION_STOPPED)
        return;
    if (!session->box) {
        session_start_for_waiting(session);
        return;
    }
    while (session_is_usable(session) && (lease = next_in_turn(session))) {
        session_grant(session, lease);
        lease->ready(lease, NULL);
    }
}

void session_fail_waiting(struct session *session, const struct session_failure *failure)
{
    struct session_lease *lease;
    while ((lease = session->waiting)) {
        session->waiting = lease->next;
        session->facts.users--;
        lease->session = NULL;
        lease->ready(lease, failure);
    }
}

/* ---- life ---------------------------------------------------------------------------------- */

static char *new_id(void)
{
    uint8_t b[16];
    if (getrandom(b, sizeof b, 0) != sizeof b)
        abort();
    b[6] = (uint8_t)((b[6] & 0x0f) | 0x40);
    b[8] = (uint8_t)((b[8] & 0x3f) | 0x80);
    return xasprintf("%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0],
                     b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12],
                     b[13], b[14], b[15]);
}

static void name_facts(struct session *session)
{
    session->facts.namespace = session->namespace;
    session->facts.group = session->group;
}

static void fill(struct session *session, const struct session_request *request,
                 const struct session_template *template, const struct session_flavor *flavor)
{
    const struct session_settings *settings = session->sessions->settings;
    uint64_t idle_s = request->idle_s ? request->idle_s : settings->idle_s;
    uint64_t lifetime_s = request->lifetime_s ? request->lifetime_s : settings->lifetime_s;
    session->namespace = xstrdup(request->namespace);
    session->id = request->id ? xstrdup(request->id) : new_id();
    session->group = xstrdup(request->group ? request->group : "");
    session->template = xstrdup(request->image ? "" : template->name);
    session->image = xstrdup(request->image ? request->image : template->image);
    session->language = xstrdup(request->language ? request->language : template->language);
    session->flavor = xstrdup(flavor->name);
    session->cpus = flavor->cpus;
    for (size_t i = 0; request->volumes && request->volumes[i]; i++)
        strv_append(&session->volumes, xstrdup(request->volumes[i]));
    session->created_us = clock_realtime_us();
    session->facts = (struct session_facts){.memory_mb = flavor->memory_mb,
                                            .accessed = clock_monotonic_ms(),
                                            .idle = idle_s * 1000,
                                            .lifetime = lifetime_s * 1000};
    name_facts(session);
}

struct session *session_new(struct sessions *sessions, const struct session_request *request,
                            struct session_lease *lease, struct session_failure *failure)
{
    const struct session_settings *settings = sessions->settings;
    const struct session_template *template =
        request->template ? session_template_find(request->template) : settings->template;
    const struct session_flavor *flavor =
        request->flavor ? session_flavor_find(request->flavor) : settings->flavor;
    struct session *session = allocate(sessions);
    fill(session, request, template, flavor);
    struct error err;
    if (session_try_start(session, lease, &err) == 0)
        return session;
    failure_wrap(failure, err.code == ERROR_INVALID ? FAILURE_REQUEST : FAILURE_CREATION, NULL,
                 session->id, &err);
    store_forget(sessions->store, session->namespace, session->sandbox);
    session->facts.state = SESSION_STOPPED;
    session_forget(session);
    return NULL;
}

static char **read_volumes(const char *text)
{
    char **volumes = NULL;
    json_t *list = json_loads(text, 0, NULL);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *volume = json_string_value(json_array_get(list, i));
        if (volume)
            strv_append(&volumes, xstrdup(volume));
    }
    json_decref(list);
    return volumes;
}

/* NULL when its sandbox does not run any more. */
struct session *session_restore(struct sessions *sessions, const struct store_row *row)
{
    struct error ignored;
    struct box *box = boxes_find(sessions->boxes, row->namespace, row->sandbox, &ignored);
    if (!box)
        return NULL;
    struct session *session = allocate(sessions);
    session->namespace = xstrdup(row->namespace);
    session->id = xstrdup(row->id);
    session->group = xstrdup(row->group);
    session->template = xstrdup(row->template);
    session->image = xstrdup(row->image);
    session->language = xstrdup(row->language);
    session->flavor = xstrdup(row->flavor);
    session->sandbox = xstrdup(row->sandbox);
    session->volumes = read_volumes(row->volumes);
    session->cpus = row->cpus;
    session->created_us = row->created_us;
    session->facts =
        (struct session_facts){.state = row->state == SESSION_ERROR ? SESSION_ERROR : SESSION_READY,
                               .memory_mb = row->memory_mb,
                               .created = row->created,
                               .accessed = row->accessed,
                               .idle = row->idle,
                               .lifetime = row->lifetime};
    name_facts(session);
    session_adopt_box(session, box);
    return session;
}

static void on_over(uv_timer_t *timer)
{
    session_forget(timer->data);
}

void session_stop(struct session *session, const char *why)
{
    struct session_failure failure;
    struct error err;
    if (session->facts.state == SESSION_STOPPED)
        return;
    log_info("session %s/%s: %s", session->namespace, session->id, why);
    error_set(&err, ERROR_NOT_FOUND, "the session %s is over: %s", session->id, why);
    failure_wrap(&failure, FAILURE_NO_SESSION, NULL, session->id, &err);
    session->facts.state = SESSION_STOPPED;
    if (session->box)
        session_save(session);
    if (session->box && !session->is_starting)
        session_stop_box(session);
    else if (!session->is_starting)
        uv_timer_start(&session->patience, on_over, 0, 0);
    session_fail_waiting(session, &failure);
}
