#include "session/session_install.h"

#include "base/mem.h"
#include "sandbox/install.h"

struct session_install {
    struct session_lease lease;
    struct install install;
    char **names;
    bool is_running;
    install_ended *ended; /* NULL: abandoned */
    void *context;
};

static void free_all(struct session_install *at)
{
    install_free(&at->install);
    strv_free(at->names);
    free(at);
}

static json_t *describe(const struct packages *packages)
{
    json_t *list = json_array();
    for (size_t i = 0; i < packages->count; i++) {
        const struct package *package = &packages->list[i];
        json_array_append_new(
            list, json_pack("{s:s, s:s?, s:s?, s:s, s:s?}", "package", package->asked, "name",
                            package->name, "version", package->version, "state",
                            package_state_name(package->state), "message", package->message));
    }
    return list;
}

static void finish(struct session_install *at, const struct error *err)
{
    struct session_failure failure;
    bool failed = err->code != ERROR_NONE;
    if (failed)
        failure_wrap(&failure, FAILURE_NONE, NULL, session_id(at->lease.session), err);
    if (at->ended && failed)
        at->ended(at->context, NULL, &failure);
    else if (at->ended)
        at->ended(at->context, describe(&at->install.packages), NULL);
    session_release(&at->lease, failed);
    free_all(at);
}

static void on_ended(struct install *install, const struct error *err)
{
    finish(install->context, err);
}

static int begin(struct session_install *at, struct error *err)
{
    struct sandbox_client *client = session_client(&at->lease);
    if (!client)
        return error_set(err, ERROR_UNAVAILABLE,
                         "the sandbox ended before packages were installed");
    if (packages_init(&at->install.packages, session_language(at->lease.session), at->names, err) <
        0)
        return -1;
    at->install.ended = on_ended;
    at->install.context = at;
    at->is_running = true;
    install_start(&at->install, client);
    return 0;
}

static void on_ready(struct session_lease *lease, const struct session_failure *failure)
{
    struct session_install *at = lease->context;
    struct error err;
    if (!failure && begin(at, &err) < 0) {
        finish(at, &err);
    } else if (failure) {
        at->ended(at->context, NULL, failure);
        free_all(at);
    }
}

/* Before a sandbox is started for names that are none. */
static int check_names(char *const *names, struct error *err)
{
    struct packages packages;
    int result = packages_init(&packages, "python", names, err);
    packages_free(&packages);
    return result;
}

struct session_install *session_install_start(struct sessions *sessions,
                                              const struct session_request *request,
                                              char *const *names, uint64_t timeout_s,
                                              install_ended *ended, void *context,
                                              struct session_failure *failure)
{
    struct error err;
    if (check_names(names, &err) < 0) {
        failure_wrap(failure, FAILURE_REQUEST, NULL, request->id, &err);
        return NULL;
    }
    struct session_install *at = xcalloc(1, sizeof *at);
    at->ended = ended;
    at->context = context;
    at->lease.ready = on_ready;
    at->lease.context = at;
    at->install.timeout_ms = timeout_s * 1000;
    for (size_t i = 0; names[i]; i++)
        strv_append(&at->names, xstrdup(names[i]));
    int granted = session_acquire(sessions, &at->lease, request, failure);
    if (granted > 0 && begin(at, &err) < 0) {
        failure_wrap(failure, FAILURE_NONE, NULL, session_id(at->lease.session), &err);
        session_release(&at->lease, true);
        granted = -1;
    }
    if (granted >= 0)
        return at;
    free_all(at);
    return NULL;
}

void session_install_abandon(struct session_install *install)
{
    install->ended = NULL;
    if (install->is_running) {
        install_cancel(&install->install);
    } else {
        session_abandon(&install->lease);
        free_all(install);
    }
}
