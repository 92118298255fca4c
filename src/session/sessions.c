#include "session/sessions.h"

#include <ctype.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "session/internal.h"
#include "session/volumes.h"

/* ---- opening ------------------------------------------------------------------------------- */

/* Of one that was being made nobody has heard yet. What is not taken is left to the sweep. */
static void take_row(void *context, const struct store_row *row)
{
    struct sessions *sessions = context;
    bool is_known = row->state != SESSION_STOPPED && row->state != SESSION_CREATING;
    if (is_known && session_restore(sessions, row))
        log_info("session %s/%s goes on", row->namespace, row->id);
}

struct sessions *sessions_open(struct boxes *boxes, const struct session_settings *settings,
                               const char *store_path, struct error *err)
{
    struct store *store = store_open(store_path, err);
    if (!store)
        return NULL;
    struct sessions *sessions = xcalloc(1, sizeof *sessions);
    sessions->boxes = boxes;
    sessions->settings = settings;
    sessions->store = store;
    sessions->last = &sessions->first;
    sessions->opened = clock_monotonic_ms();
    uv_timer_init(boxes->loop, &sessions->flush);
    sessions->flush.data = sessions;
    store_each(store, take_row, sessions);
    tasks_open(sessions);
    return sessions;
}

void sessions_close(struct sessions *sessions)
{
    store_begin(sessions->store);
    for (struct session *at = sessions->first; at; at = at->next) {
        if (at->is_dirty)
            session_save(at);
    }
    store_end(sessions->store);
    store_close(sessions->store);
    free(sessions);
}

const struct session_settings *sessions_settings(const struct sessions *sessions)
{
    return sessions->settings;
}

/* ---- acquiring ----------------------------------------------------------------------------- */

int session_check_id(const char *id, struct session_failure *failure)
{
    size_t length = strlen(id);
    bool good = length > 0 && length <= SESSION_ID_MAX;
    for (size_t i = 0; good && i < length; i++)
        good = isalnum((unsigned char)id[i]) || id[i] == '_' || id[i] == '-';
    if (good)
        return 0;
    error_set(&failure->cause, ERROR_INVALID, "\"%.80s\" is no id of a session", id);
    error_hint(&failure->cause, "an id has 1 to %d letters, digits, _ and -", SESSION_ID_MAX);
    return failure_set(failure, FAILURE_REQUEST, "session_id", NULL);
}

static int refuse(struct session_failure *failure, const struct session_request *request,
                  const char *what, const char *value, const char *wanted)
{
    error_set(&failure->cause, ERROR_INVALID, "there is no %s \"%.80s\"", what, value);
    error_hint(&failure->cause, "use %s", wanted);
    return failure_set(failure, FAILURE_REQUEST, NULL, request->id);
}

static int check_request(const struct sessions *sessions, const struct session_request *request,
                         struct session_failure *failure)
{
    struct error err;
    if (request->id && session_check_id(request->id, failure) < 0)
        return -1;
    if (request->template && !session_template_find(request->template))
        return refuse(failure, request, "template", request->template, "python or node");
    if (request->flavor && !session_flavor_find(request->flavor))
        return refuse(failure, request, "flavor", request->flavor, "small, medium or large");
    for (size_t i = 0; request->volumes && request->volumes[i]; i++) {
        if (volumes_check(request->volumes[i], sessions->settings->volume_roots, &err) < 0)
            return failure_wrap(failure, FAILURE_NONE, NULL, request->id, &err);
    }
    return 0;
}

static int lack(struct session_failure *failure, const struct session_request *request,
                const struct policy_answer *answer)
{
    bool is_memory = strcmp(answer->lacking, "memory") == 0;
    error_set(&failure->cause, ERROR_LIMIT,
              is_memory ? "no room for another session: %llu of %llu MB of memory are taken"
                        : "no room for another session: there are %llu of at most %llu",
              (unsigned long long)answer->current, (unsigned long long)answer->limit);
    failure_set(failure, FAILURE_RESOURCE, answer->lacking, request->id);
    failure->current = answer->current;
    failure->limit = answer->limit;
    return -1;
}

static void evict(struct sessions *sessions, const struct session_facts *victim)
{
    for (struct session *at = sessions->first; at; at = at->next) {
        if (&at->facts == victim) {
            session_stop(at, "it made room for another one");
            return;
        }
    }
}

/* Evicts what has to go, or says what is lacking. */
static int make_room(struct sessions *sessions, const struct session_request *request,
                     struct session_failure *failure)
{
    const struct session_settings *settings = sessions->settings;
    const struct session_flavor *flavor =
        request->flavor ? session_flavor_find(request->flavor) : settings->flavor;
    size_t count = 0, taken = 0;
    for (const struct session *at = sessions->first; at; at = at->next)
        count++;
    cleanup_free const struct session_facts **all = xcalloc(count + 1, sizeof(void *));
    cleanup_free const struct session_facts **victims = xcalloc(count + 1, sizeof(void *));
    for (const struct session *at = sessions->first; at; at = at->next)
        all[taken++] = &at->facts;
    struct policy_wish wish = {.namespace = request->namespace,
                               .group = request->group ? request->group : "",
                               .memory_mb = flavor->memory_mb,
                               .all = {.sessions = settings->max_sessions,
                                       .memory_mb = settings->max_memory_mb,
                                       .evict = settings->evict},
                               .own = request->limits};
    struct policy_answer answer = policy_make_room(all, count, &wish, victims);
    if (answer.lacking)
        return lack(failure, request, &answer);
    for (size_t i = 0; i < answer.victims; i++)
        evict(sessions, victims[i]);
    return 0;
}

static struct session *find_or_make(struct sessions *sessions,
                                    const struct session_request *request,
                                    struct session_lease *lease, struct session_failure *failure)
{
    struct session *session =
        request->id ? session_find(sessions, request->namespace, request->id) : NULL;
    if (session && policy_is_expired(&session->facts, clock_monotonic_ms())) {
        session_stop(session, "its time is over");
        session = NULL;
    }
    if (session)
        return session;
    if (request->must_exist) {
        failure_no_session(failure, request->id ? request->id : "without an id");
        return NULL;
    }
    if (make_room(sessions, request, failure) < 0)
        return NULL;
    return session_new(sessions, request, lease, failure);
}

static int refuse_busy(struct session_failure *failure, const struct session *session)
{
    error_set(&failure->cause, ERROR_BUSY, "the session %s is busy with another call", session->id);
    return failure_set(failure, FAILURE_BUSY, NULL, session->id);
}

static void enqueue(struct session *session, struct session_lease *lease)
{
    struct session_lease **at = &session->waiting;
    while (*at)
        at = &(*at)->next;
    *at = lease;
}

static bool has_turn_taken(const struct session *session)
{
    for (const struct session_lease *at = session->waiting; at; at = at->next) {
        if (!at->shared)
            return true;
    }
    return session->holder;
}

static size_t count_waiting(const struct session *session)
{
    size_t count = 0;
    for (const struct session_lease *at = session->waiting; at; at = at->next)
        count++;
    return count;
}

int session_acquire(struct sessions *sessions, struct session_lease *lease,
                    const struct session_request *request, struct session_failure *failure)
{
    if (check_request(sessions, request, failure) < 0)
        return -1;
    lease->granted = lease->created = lease->came_along = false;
    struct session *session = find_or_make(sessions, request, lease, failure);
    if (!session)
        return -1;
    bool taken = !request->shared && has_turn_taken(session);
    if ((taken && !request->wait) || count_waiting(session) >= WAITING_MAX)
        return refuse_busy(failure, session);
    if (!session->box && session_restart(session, session->waiting ? NULL : lease, failure) < 0)
        return -1;
    lease->session = session;
    lease->shared = request->shared;
    lease->next = NULL;
    session->facts.users++;
    session->facts.accessed = clock_monotonic_ms();
    session_mark(session);
    if (session_is_usable(session) && !taken) {
        session_grant(session, lease);
        return 1;
    }
    enqueue(session, lease);
    return 0;
}

void session_release(struct session_lease *lease, bool failed)
{
    struct session *session = steal_pointer(&lease->session);
    session->facts.users--;
    session->facts.accessed = clock_monotonic_ms();
    if (session->holder == lease) {
        session->holder = NULL;
        if (session->facts.state == SESSION_PROCESSING)
            session->facts.state = failed ? SESSION_ERROR : SESSION_READY;
    }
    if (session->facts.state == SESSION_STOPPED) {
        session_forget(session);
        return;
    }
    session_mark(session);
    session_serve(session);
}

void session_abandon(struct session_lease *lease)
{
    struct session *session = lease->session;
    if (lease->granted) {
        session_release(lease, true);
        return;
    }
    struct session_lease **at = &session->waiting;
    while (*at != lease)
        at = &(*at)->next;
    *at = lease->next;
    lease->session = NULL;
    session->facts.users--;
    session_forget(session);
}

struct sandbox_client *session_client(const struct session_lease *lease)
{
    const struct session *session = lease->session;
    return session_is_usable(session) ? &session->box->client : NULL;
}

const char *session_id(const struct session *session)
{
    return session->id;
}

const char *session_namespace(const struct session *session)
{
    return session->namespace;
}

const char *session_template(const struct session *session)
{
    return session->template;
}

const char *session_language(const struct session *session)
{
    return session->language;
}

/* ---- managing ------------------------------------------------------------------------------ */

static struct session *need(struct sessions *sessions, const char *namespace, const char *id,
                            struct session_failure *failure)
{
    if (session_check_id(id, failure) < 0)
        return NULL;
    struct session *session = session_find(sessions, namespace, id);
    if (!session)
        failure_no_session(failure, id);
    return session;
}

int sessions_touch(struct sessions *sessions, const char *namespace, const char *id,
                   struct session_failure *failure)
{
    struct session *session = need(sessions, namespace, id, failure);
    if (!session)
        return -1;
    session->facts.accessed = clock_monotonic_ms();
    session_mark(session);
    return 0;
}

int sessions_stop(struct sessions *sessions, const char *namespace, const char *id,
                  struct session_stop *stop, struct session_failure *failure)
{
    struct session *session = need(sessions, namespace, id, failure);
    if (!session)
        return -1;
    stop->next = session->stops;
    session->stops = stop;
    session_stop(session, "it was stopped");
    return 0;
}

enum session_state sessions_state(struct sessions *sessions, const char *namespace, const char *id)
{
    const struct session *session = session_find(sessions, namespace, id);
    return session ? session->facts.state : SESSION_STOPPED;
}

json_t *sessions_volumes(const struct sessions *sessions)
{
    return volumes_json(sessions->settings->volumes);
}
