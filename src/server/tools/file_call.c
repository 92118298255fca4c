#include "server/tools/file_call.h"

#include <stdio.h>

#include "base/mem.h"

static void file_call_free(struct file_call *work)
{
    buf_free(&work->content);
    json_decref(work->pictures.wanted);
    json_decref(work->pictures.answer);
    free(work->session);
    free(work->path);
    free(work);
}

static void on_cancelled(struct mcp_call *call)
{
    struct file_call *work = call->context;
    if (work->is_showing)
        pictures_abandon(&work->pictures);
    else
        session_file_abandon(work->file);
    file_call_free(work);
}

void file_call_end(struct file_call *work, json_t *answer)
{
    struct mcp_call *call = work->call;
    call->cancelled = NULL;
    file_call_free(work);
    mcp_succeed(call, answer);
}

void file_call_start(struct file_call *work, enum operation operation, bool must_exist,
                     file_ended *ended)
{
    struct session_failure failure;
    struct server *server = tools_server(work->call);
    struct session_request request = {.namespace = work->namespace,
                                      .id = work->session,
                                      .must_exist = must_exist,
                                      .template = must_exist ? NULL : "python"};
    work->call->context = work;
    work->call->cancelled = on_cancelled;
    work->file = session_file_start(server->sessions, &request,
                                    &(struct file_work){
                                        .operation = operation,
                                        .path = work->path,
                                        .beneath = operation != OP_FILE_WRITE,
                                        .depth = ARTIFACT_DEPTH,
                                        .partial = true,
                                        .content = buf_data(&work->content),
                                        .length = buf_length(&work->content),
                                        .max = operation == OP_FILE_READ ? ARTIFACT_MAX : 0,
                                    },
                                    ended, work, &failure);
    if (!work->file)
        file_call_end(work, answer_failure(&failure));
}

struct file_call *file_call_begin(struct mcp_call *call, const json_t *arguments,
                                  bool needs_session)
{
    struct error err;
    struct session_failure failure;
    const char *session = NULL;
    int result = tools_begin(tools_server(call), &err);
    if (result < 0)
        failure_wrap(&failure, FAILURE_NONE, NULL, NULL, &err);
    else if (needs_session)
        result = tools_need_text(arguments, "session_id", &session, &failure);
    else
        result = tools_text(arguments, "session_id", &session, &failure);
    if (result == 0 && session)
        result = session_check_id(session, &failure);
    if (result < 0) {
        mcp_succeed(call, answer_failure(&failure));
        return NULL;
    }
    struct file_call *work = xcalloc(1, sizeof *work);
    work->call = call;
    work->session = session ? xstrdup(session) : NULL;
    snprintf(work->namespace, sizeof work->namespace, "%s", tools_namespace(call));
    tools_note(call, work->namespace, session ? session : "");
    return work;
}

void file_call_refuse(struct file_call *work, enum failure_kind kind, const char *detail,
                      const char *what, const char *remedy)
{
    struct error err;
    struct session_failure failure;
    error_set(&err, ERROR_INVALID, "%s", what);
    error_hint(&err, "%s", remedy);
    failure_wrap(&failure, kind, detail, work->session, &err);
    file_call_end(work, answer_failure(&failure));
}

struct file_place file_call_place(const struct file_call *work)
{
    return (struct file_place){.session = work->session,
                               .server = tools_server(work->call),
                               .namespace = work->namespace,
                               .base = work->call->base};
}
