/* session.start, run_code, run_command, stop, get, list, touch, statistics, volumes. */
#include <string.h>

#include "base/mem.h"
#include "server/rpc.h"
#include "server/session_params.h"

/* ---- failures ------------------------------------------------------------------------------ */

static enum rpc_code code_of(const struct session_failure *failure)
{
    switch (failure->kind) {
    case FAILURE_REQUEST:
        return RPC_INVALID_PARAMS;
    case FAILURE_NO_SESSION:
        return RPC_NO_SANDBOX;
    case FAILURE_DENIED:
        return RPC_AUTHENTICATION;
    default:
        return RPC_INTERNAL;
    }
}

static void fail_with(struct rpc_call *call, const struct session_failure *failure, json_t *result)
{
    json_t *data = failure_json(failure);
    if (result)
        json_object_set_new(data, "result", result);
    cleanup_free char *message = xstrdup(json_string_value(json_object_get(data, "message")));
    rpc_fail_data(call, code_of(failure), message, data);
}

static void fail(struct rpc_call *call, const struct session_failure *failure)
{
    fail_with(call, failure, NULL);
}

void session_refuse(struct rpc_call *call, const struct error *err)
{
    struct session_failure failure;
    failure_wrap(&failure, FAILURE_REQUEST, NULL, NULL, err);
    fail(call, &failure);
}

/* ---- running ------------------------------------------------------------------------------- */

static void on_left(struct rpc_call *call)
{
    session_run_abandon(call->context);
}

static json_t *describe(const struct rpc_call *call, const struct run_result *result)
{
    json_t *json = run_result_json(result);
    const char *command = json_string_value(json_object_get(call->params, "command"));
    json_t *args = json_object_get(call->params, "args");
    if (result->files)
        json_object_set_new(json, "files", json_deep_copy(result->files));
    if (command) {
        json_object_set_new(json, "command", json_string(command));
        json_object_set_new(json, "args", json_is_array(args) ? json_incref(args) : json_array());
    }
    return json;
}

static void on_ended(void *context, const struct run_result *result,
                     const struct session_failure *failure)
{
    struct rpc_call *call = context;
    json_t *json = result ? describe(call, result) : NULL;
    if (failure)
        fail_with(call, failure, json);
    else
        rpc_succeed(call, json);
}

static void run(struct rpc_call *call, struct session_params *params)
{
    struct session_failure failure;
    params->request.namespace = call->namespace;
    struct session_run *started = session_run_start(call->server->sessions, &params->request,
                                                    &params->work, on_ended, call, &failure);
    call->context = started;
    call->left = on_left;
    if (!started)
        fail(call, &failure);
}

void method_session_start(struct rpc_call *call)
{
    struct session_failure failure;
    struct session_params params = {.request.shared = true};
    if (session_params_read(&params, call->params, &failure) < 0)
        fail(call, &failure);
    else
        run(call, &params);
    session_params_free(&params);
}

static int need_text(struct rpc_call *call, const char *key, const char **text,
                     struct session_failure *failure)
{
    struct error err;
    return rpc_need_text(call, key, text, &err) == 0
               ? 0
               : failure_wrap(failure, FAILURE_REQUEST, NULL, NULL, &err);
}

void method_session_run_code(struct rpc_call *call)
{
    struct session_failure failure;
    struct session_params params = {0};
    if (session_params_read(&params, call->params, &failure) < 0 ||
        need_text(call, "code", &params.work.code, &failure) < 0)
        fail(call, &failure);
    else
        run(call, &params);
    session_params_free(&params);
}

/* Without "args" the command is a line for the shell. */
static char **make_argv(const struct session_params *params, const char *command)
{
    size_t count = strv_length(params->args);
    char **argv = xcalloc(count + 4, sizeof *argv);
    char *line = (char *)(uintptr_t)command;
    static char shell[] = "sh", option[] = "-c";
    if (count == 0) {
        argv[0] = shell;
        argv[1] = option;
        argv[2] = line;
        return argv;
    }
    argv[0] = line;
    memcpy(argv + 1, params->args, count * sizeof *argv);
    return argv;
}

void method_session_run_command(struct rpc_call *call)
{
    struct session_failure failure;
    struct session_params params = {0};
    const char *command;
    if (session_params_read(&params, call->params, &failure) < 0 ||
        need_text(call, "command", &command, &failure) < 0) {
        fail(call, &failure);
    } else {
        cleanup_free char **argv = make_argv(&params, command);
        params.work.argv = argv;
        run(call, &params);
    }
    session_params_free(&params);
}

/* ---- stopping ------------------------------------------------------------------------------ */

struct stopping {
    struct session_stop stop;
    struct rpc_call *call; /* NULL: the client has left */
};

static void on_stop_left(struct rpc_call *call)
{
    struct stopping *stopping = call->context;
    stopping->call = NULL;
}

static void on_stopped(struct session_stop *stop)
{
    struct stopping *stopping = stop->context;
    if (stopping->call)
        rpc_succeed(stopping->call, json_pack("{s:b}", "stopped", 1));
    free(stopping);
}

void method_session_stop(struct rpc_call *call)
{
    struct session_failure failure;
    struct stopping *stopping = xcalloc(1, sizeof *stopping);
    const char *id;
    stopping->call = call;
    stopping->stop = (struct session_stop){.stopped = on_stopped, .context = stopping};
    call->context = stopping;
    call->left = on_stop_left;
    if (need_text(call, "session_id", &id, &failure) == 0 &&
        sessions_stop(call->server->sessions, call->namespace, id, &stopping->stop, &failure) == 0)
        return;
    call->left = NULL;
    free(stopping);
    fail(call, &failure);
}

/* ---- looking ------------------------------------------------------------------------------- */

void method_session_get(struct rpc_call *call)
{
    struct session_failure failure;
    const char *id;
    if (need_text(call, "session_id", &id, &failure) < 0 || session_check_id(id, &failure) < 0) {
        fail(call, &failure);
        return;
    }
    json_t *info = sessions_get(call->server->sessions, call->namespace, id);
    if (info) {
        rpc_succeed(call, info);
        return;
    }
    failure_no_session(&failure, id);
    fail(call, &failure);
}

void method_session_touch(struct rpc_call *call)
{
    struct session_failure failure;
    const char *id;
    if (need_text(call, "session_id", &id, &failure) == 0 &&
        sessions_touch(call->server->sessions, call->namespace, id, &failure) == 0)
        rpc_succeed(call, sessions_get(call->server->sessions, call->namespace, id));
    else
        fail(call, &failure);
}

static const char *one_or_all(const struct rpc_call *call)
{
    return strcmp(call->namespace, "*") == 0 ? NULL : call->namespace;
}

void method_session_list(struct rpc_call *call)
{
    json_t *list = sessions_list(call->server->sessions, one_or_all(call));
    rpc_succeed(call, json_pack("{s:o}", "sessions", list));
}

void method_session_statistics(struct rpc_call *call)
{
    rpc_succeed(call, sessions_statistics(call->server->sessions, one_or_all(call)));
}

void method_session_volumes(struct rpc_call *call)
{
    json_t *list = sessions_volumes(call->server->sessions);
    rpc_succeed(call, json_pack("{s:o}", "volumes", list));
}
