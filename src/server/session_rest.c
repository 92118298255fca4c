/* …/sandbox/start, stop, status, install. */
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "server/rest.h"
#include "server/rpc.h"
#include "server/session_output.h"
#include "session/session_install.h"

/* ---- what is told about a session ---------------------------------------------------------- */

static const char *status_of(const char *state)
{
    if (strcmp(state, "creating") == 0)
        return "starting";
    return strcmp(state, "ready") == 0 || strcmp(state, "processing") == 0 ? "running" : state;
}

/* NULL when there is no such session. */
static json_t *describe(const struct rest *rest)
{
    json_t *session = sessions_get(rest->server->sessions, rest->namespace, rest->id);
    if (!session)
        return NULL;
    bool is_custom = json_is_null(json_object_get(session, "template"));
    json_t *info =
        json_pack("{s:O, s:s, s:s, s:s, s:O, s:O, s:O, s:O}", "sandbox_id",
                  json_object_get(session, "sandbox_name"), "session_id", rest->id, "sandbox_type",
                  is_custom ? "custom" : "code_interpreter", "status",
                  status_of(json_string_value(json_object_get(session, "status"))), "created_at",
                  json_object_get(session, "created_at"), "last_activity",
                  json_object_get(session, "last_accessed"), "image",
                  json_object_get(session, "image"), "flavor", json_object_get(session, "flavor"));
    json_decref(session);
    return info;
}

void session_rest_status(struct http_request *request)
{
    struct rest *rest = rest_begin(request);
    if (!rest)
        return;
    json_t *info = describe(rest);
    rest_answer(rest, json_pack("{s:b, s:o?}", "exists", info != NULL, "info", info));
}

/* ---- start --------------------------------------------------------------------------------- */

static void on_left(struct rest *rest)
{
    session_run_abandon(rest->context);
}

static void on_started(void *context, const struct run_result *result,
                       const struct session_failure *failure)
{
    struct rest *rest = context;
    json_t *info = result ? describe(rest) : NULL;
    if (failure || !info)
        rest_fail(rest, failure);
    else
        rest_answer(rest, info);
}

/* "code_interpreter" has a template, "custom" an image. */
static int check_type(const struct rest *rest, struct session_failure *failure)
{
    struct error err;
    const char *type = NULL;
    bool has_image = rest->params.request.image != NULL;
    if (rpc_member_text(rest->body, "sandbox_type", &type, &err) < 0)
        return failure_wrap(failure, FAILURE_REQUEST, NULL, rest->id, &err);
    bool is_custom = type ? strcmp(type, "custom") == 0 : has_image;
    if ((!type || is_custom || strcmp(type, "code_interpreter") == 0) && is_custom == has_image)
        return 0;
    error_set(&err, ERROR_INVALID,
              "\"sandbox_type\" is code_interpreter, or custom together with \"image\"");
    return failure_wrap(failure, FAILURE_REQUEST, NULL, rest->id, &err);
}

void session_rest_start(struct http_request *request)
{
    struct session_failure failure;
    struct rest *rest = rest_begin(request);
    if (!rest)
        return;
    if (check_type(rest, &failure) < 0) {
        rest_fail(rest, &failure);
        return;
    }
    rest->params.request.shared = true;
    rest->context = session_run_start(rest->server->sessions, &rest->params.request,
                                      &(struct run_work){0}, on_started, rest, &failure);
    rest->left = on_left;
    if (!rest->context)
        rest_fail(rest, &failure);
}

/* ---- stop ---------------------------------------------------------------------------------- */

struct stopping {
    struct session_stop stop;
    struct rest *rest; /* NULL: the client has left */
};

static void on_stop_left(struct rest *rest)
{
    struct stopping *stopping = rest->context;
    stopping->rest = NULL;
}

static void on_stopped(struct session_stop *stop)
{
    struct stopping *stopping = stop->context;
    if (stopping->rest)
        rest_answer(stopping->rest, json_pack("{s:s}", "status", "stopped"));
    free(stopping);
}

/* One that is not there is as good as stopped. */
void session_rest_stop(struct http_request *request)
{
    struct session_failure failure;
    struct rest *rest = rest_begin(request);
    if (!rest)
        return;
    struct stopping *stopping = xcalloc(1, sizeof *stopping);
    stopping->rest = rest;
    stopping->stop = (struct session_stop){.stopped = on_stopped, .context = stopping};
    rest->context = stopping;
    if (sessions_stop(rest->server->sessions, rest->namespace, rest->id, &stopping->stop,
                      &failure) < 0)
        on_stopped(&stopping->stop);
    else
        rest->left = on_stop_left;
}

/* ---- install ------------------------------------------------------------------------------- */

static void on_install_left(struct rest *rest)
{
    session_install_abandon(rest->context);
}

static void on_installed(void *context, json_t *packages, const struct session_failure *failure)
{
    struct rest *rest = context;
    if (failure)
        rest_fail(rest, failure);
    else
        rest_answer(rest, output_of_install(packages, clock_monotonic_ms() - rest->began));
}

void session_rest_install(struct http_request *request)
{
    struct session_failure failure;
    struct error err;
    cleanup_free char **names = NULL;
    struct rest *rest = rest_begin(request);
    if (!rest)
        return;
    if (rpc_texts(rest->body, "packages", &names, &err) < 0) {
        failure_wrap(&failure, FAILURE_REQUEST, NULL, rest->id, &err);
        rest_fail(rest, &failure);
        return;
    }
    uint64_t timeout_s = rest->params.work.timeout_s ? rest->params.work.timeout_s
                                                     : rest->server->session_settings.execution_s;
    rest->context = session_install_start(rest->server->sessions, &rest->params.request, names,
                                          timeout_s, on_installed, rest, &failure);
    rest->left = on_install_left;
    if (!rest->context)
        rest_fail(rest, &failure);
}
