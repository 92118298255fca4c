/* Sessions themselves: sandbox_close_session, get_sessions, stop_session, get_volume_mappings. */
#include <string.h>

#include "base/mem.h"
#include "server/tools/internal.h"

/* ---- stopping ------------------------------------------------------------------------------- */

struct stopping {
    struct session_stop stop;
    struct mcp_call *call; /* NULL: nobody waits for it any more */
    json_t *answer;
};

static void on_cancelled(struct mcp_call *call)
{
    struct stopping *stopping = call->context;
    stopping->call = NULL;
}

static void on_stopped(struct session_stop *stop)
{
    struct stopping *stopping = stop->context;
    if (stopping->call) {
        stopping->call->cancelled = NULL;
        mcp_succeed(stopping->call, json_incref(stopping->answer));
    }
    json_decref(stopping->answer);
    free(stopping);
}

/* Takes the answer. */
static void stop_session(struct mcp_call *call, const char *id, json_t *answer,
                         struct session_failure *failure,
                         json_t *(*refuse)(const struct session_failure *failure))
{
    struct stopping *stopping = xcalloc(1, sizeof *stopping);
    *stopping = (struct stopping){.call = call, .answer = answer};
    stopping->stop = (struct session_stop){.stopped = on_stopped, .context = stopping};
    call->context = stopping;
    call->cancelled = on_cancelled;
    const char *namespace = tools_namespace(call);
    struct server *server = tools_server(call);
    int result = server->sessions
                     ? sessions_stop(server->sessions, namespace, id, &stopping->stop, failure)
                     : failure_no_session(failure, id);
    if (result == 0)
        return;
    call->cancelled = NULL;
    json_decref(answer);
    free(stopping);
    mcp_succeed(call, refuse(failure));
}

/* A session with a call under way is not closed under it. */
void tool_close_session(struct mcp_call *call, const json_t *arguments)
{
    struct session_failure failure;
    struct server *server = tools_server(call);
    const char *id;
    if (tools_need_text(arguments, "session_id", &id, &failure) < 0 ||
        session_check_id(id, &failure) < 0) {
        mcp_succeed(call, answer_failure(&failure));
        return;
    }
    tools_note(call, tools_namespace(call), id);
    if (server->sessions &&
        sessions_state(server->sessions, tools_namespace(call), id) == SESSION_PROCESSING) {
        error_set(&failure.cause, ERROR_BUSY, "the session %s is busy with another call", id);
        failure_set(&failure, FAILURE_BUSY, NULL, id);
        mcp_succeed(call, answer_failure(&failure));
        return;
    }
    stop_session(call, id, answer_data(json_pack("{s:s}", "status", "closed")), &failure,
                 answer_failure);
}

static json_t *tell_missing(const struct session_failure *failure)
{
    if (failure->kind != FAILURE_NO_SESSION)
        return answer_failure(failure);
    cleanup_free char *text =
        xasprintf("Session %s was not found or is stopped already", failure->session_id);
    return answer_text(text);
}

void tool_stop_session(struct mcp_call *call, const json_t *arguments)
{
    struct session_failure failure;
    const char *id;
    if (tools_need_text(tools_unwrap(arguments), "session_id", &id, &failure) < 0 ||
        session_check_id(id, &failure) < 0) {
        mcp_succeed(call, answer_failure(&failure));
        return;
    }
    tools_note(call, tools_namespace(call), id);
    cleanup_free char *text = xasprintf("Session %s has been stopped successfully", id);
    stop_session(call, id, answer_text(text), &failure, tell_missing);
}

/* ---- looking -------------------------------------------------------------------------------- */

static void describe(struct buf *text, const json_t *session)
{
    static const struct {
        const char *title, *name;
    } lines[] = {{"Session ID", "session_id"}, {"Template", "template"},
                 {"Flavor", "flavor"},         {"Status", "status"},
                 {"Created", "created_at"},    {"Last Accessed", "last_accessed"},
                 {"Namespace", "namespace"},   {"Sandbox Name", "sandbox_name"}};
    if (buf_length(text) > 0)
        buf_append_text(text, "\n");
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        const char *value = json_string_value(json_object_get(session, lines[i].name));
        buf_printf(text, "%s: %s\n", lines[i].title, value ? value : "");
    }
}

void tool_get_sessions(struct mcp_call *call, const json_t *arguments)
{
    struct session_failure failure;
    struct server *server = tools_server(call);
    cleanup_buf struct buf text = {0};
    const char *wanted;
    if (tools_text(tools_unwrap(arguments), "session_id", &wanted, &failure) < 0) {
        mcp_succeed(call, answer_failure(&failure));
        return;
    }
    json_t *list =
        server->sessions ? sessions_list(server->sessions, tools_namespace(call)) : json_array();
    size_t index;
    json_t *session;
    tools_note(call, tools_namespace(call), wanted ? wanted : "");
    json_array_foreach(list, index, session)
    {
        const char *id = json_string_value(json_object_get(session, "session_id"));
        if (!wanted || strcmp(id, wanted) == 0)
            describe(&text, session);
    }
    json_decref(list);
    if (buf_length(&text) == 0 && wanted)
        buf_printf(&text, "Session %.80s was not found", wanted);
    else if (buf_length(&text) == 0)
        buf_append_text(&text, "No active sessions found");
    mcp_succeed(call, answer_text(buf_text(&text)));
}

void tool_get_volume_mappings(struct mcp_call *call, const json_t *arguments)
{
    (void)arguments;
    struct error err;
    struct server *server = tools_server(call);
    cleanup_buf struct buf text = {0};
    tools_note(call, tools_namespace(call), "");
    if (tools_begin(server, &err) < 0) {
        mcp_succeed(call, answer_error(err.message, err.hint));
        return;
    }
    json_t *list = sessions_volumes(server->sessions);
    size_t index;
    json_t *volume;
    json_array_foreach(list, index, volume)
    {
        buf_printf(&text, "Host: %s -> Container: %s\n",
                   json_string_value(json_object_get(volume, "host_path")),
                   json_string_value(json_object_get(volume, "container_path")));
    }
    json_decref(list);
    if (buf_length(&text) == 0)
        buf_append_text(&text, "No volume mappings configured");
    mcp_succeed(call, answer_text(buf_text(&text)));
}
