/* The sandbox of a session: started, found gone, ended. */
#include <sys/random.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "session/internal.h"

/* A keeper ends its sandbox by itself so long after the session's lifetime: nobody else did. */
#define KEEPER_MARGIN_MS 300000

void session_stop_box(struct session *session)
{
    if (session->box && !session->box->client.link.is_closing)
        box_stop(session->box, NULL);
}

static void on_gone(struct box_waiter *waiter, const struct error *err)
{
    (void)err;
    struct session *session = waiter->context;
    session->box = NULL;
    store_forget(session->sessions->store, session->namespace, session->sandbox);
    if (session->facts.state == SESSION_STOPPED) {
        session_forget(session);
        return;
    }
    log_info("session %s/%s: its sandbox has ended", session->namespace, session->id);
    session->facts.state = SESSION_ERROR;
    session_serve(session);
}

void session_adopt_box(struct session *session, struct box *box)
{
    session->box = box;
    session->gone = (struct box_waiter){.done = on_gone, .context = session};
    box_await_end(box, &session->gone);
}

/* A session whose sandbox could not be started never was. */
static void fail_start(struct session *session, const struct error *err)
{
    struct session_failure failure;
    failure_wrap(&failure, FAILURE_CREATION, NULL, session->id, err);
    failure_set_subject(&failure, session->template[0] ? session->template : session->image);
    failure.flavor = session->flavor;
    session->facts.state = SESSION_STOPPED;
    session_fail_waiting(session, &failure);
}

static void on_started(struct box_waiter *waiter, const struct error *err)
{
    struct session *session = waiter->context;
    struct box *box = steal_pointer(&session->box);
    session->is_starting = false;
    uv_timer_stop(&session->patience);
    if (err) {
        log_warn("session %s/%s: %s", session->namespace, session->id, err->message);
        store_forget(session->sessions->store, session->namespace, session->sandbox);
        if (session->facts.state != SESSION_STOPPED)
            fail_start(session, err);
        session_forget(session);
        return;
    }
    session_adopt_box(session, box);
    if (session->facts.state == SESSION_STOPPED) {
        session_stop_box(session);
        return;
    }
    session->facts.state = SESSION_READY;
    session->facts.accessed = clock_monotonic_ms();
    session_save(session);
    session_serve(session);
}

static void on_impatient(uv_timer_t *timer)
{
    struct session *session = timer->data;
    struct error err;
    error_set(&err, ERROR_TIMEOUT, "the sandbox was not started within %llu seconds",
              (unsigned long long)(session->sessions->settings->start_ms + 999) / 1000);
    error_hint(&err, "its image may have to be made first: try again later");
    fail_start(session, &err);
    session_save(session);
}

static int fill_config(const struct session *session, struct sandbox_config *config,
                       struct error *err)
{
    const struct session_settings *settings = session->sessions->settings;
    free(config->namespace);
    config->namespace = xstrdup(session->namespace);
    config->name = xstrdup(session->sandbox);
    config->image = xstrdup(session->image);
    /* Found out when it is started. */
    config->image_path = xstrdup("");
    config->image_digest = xstrdup("");
    config->cpus = session->cpus;
    config->memory_mb = session->facts.memory_mb;
    if (session->facts.lifetime)
        config->lifetime_ms = session->facts.lifetime + KEEPER_MARGIN_MS;
    sandbox_config_choose_engine(config, NULL);
    int result = settings->network ? sandbox_config_set_egress(config, settings->network, err) : 0;
    for (size_t i = 0; result == 0 && settings->volumes && settings->volumes[i]; i++)
        result = sandbox_config_add_volume(config, settings->volumes[i], "/", err);
    for (size_t i = 0; result == 0 && session->volumes && session->volumes[i]; i++)
        result = sandbox_config_add_volume(config, session->volumes[i], "/", err);
    return result < 0 ? result : sandbox_config_check(config, err);
}

static char *new_sandbox_name(void)
{
    uint64_t number;
    if (getrandom(&number, sizeof number, 0) != sizeof number)
        abort();
    return xasprintf("session-%016llx", (unsigned long long)number);
}

int session_try_start(struct session *session, struct session_lease *lease, struct error *err)
{
    struct sandbox_config config;
    cleanup_buf struct buf call = {0};
    bool has_call = lease && lease->call && lease->call(lease, session, &call);
    free(session->sandbox);
    session->sandbox = new_sandbox_name();
    session->facts.state = SESSION_CREATING;
    session->facts.created = clock_monotonic_ms();
    session->is_new = true;
    sandbox_config_init(&config);
    int result = fill_config(session, &config, err);
    if (result == 0) {
        session->box = boxes_start(session->sessions->boxes, &config, has_call ? &call : NULL, err);
        result = session->box ? 0 : -1;
    }
    sandbox_config_free(&config);
    if (result < 0)
        return result;
    /* It starts meanwhile. Known before anything else happens here: one that nobody waits for any
     * more will be found. */
    session_save(session);
    if (lease)
        lease->came_along = has_call;
    session->is_starting = true;
    session->started = (struct box_waiter){.done = on_started, .context = session};
    box_await_start(session->box, &session->started);
    uv_timer_start(&session->patience, on_impatient, session->sessions->settings->start_ms, 0);
    return 0;
}

int session_restart(struct session *session, struct session_lease *lease,
                    struct session_failure *failure)
{
    struct error err;
    if (session_try_start(session, lease, &err) == 0)
        return 0;
    failure_wrap(failure, FAILURE_CREATION, NULL, session->id, &err);
    store_forget(session->sessions->store, session->namespace, session->sandbox);
    session->facts.state = SESSION_STOPPED;
    session_forget(session);
    return -1;
}

/* For those who wait. */
void session_start_for_waiting(struct session *session)
{
    struct error err;
    if (session_try_start(session, session->waiting, &err) == 0)
        return;
    store_forget(session->sessions->store, session->namespace, session->sandbox);
    fail_start(session, &err);
    session_forget(session);
}
