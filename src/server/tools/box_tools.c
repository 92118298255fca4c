/* Sandboxes by name: each tool is a method of JSON-RPC, whose answer is told to a model. */
#include <string.h>

#include "base/mem.h"
#include "server/rpc.h"
#include "server/tools/internal.h"
#include "server/tools/pictures.h"

struct box_work {
    struct rpc_asker asker;
    struct job *job;
    struct pictures pictures;
    bool is_showing;
};

/* ---- answers -------------------------------------------------------------------------------- */

static const char *text_of(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    return text ? text : "";
}

/* Hints of methods name methods; a model has tools. */
static json_t *tell_error(const json_t *error)
{
    if (json_integer_value(json_object_get(error, "code")) == RPC_NO_SANDBOX)
        return answer_error(
            text_of(error, "message"),
            "start it with sandbox_start; sandbox_get_metrics lists those that run");
    return answer_error(text_of(error, "message"), text_of(json_object_get(error, "data"), "hint"));
}

static void join_lines(struct buf *text, const json_t *lines, const char *stream)
{
    size_t index;
    json_t *line;
    json_array_foreach(lines, index, line)
    {
        if (strcmp(text_of(line, "stream"), stream) == 0)
            buf_printf(text, "%s\n", text_of(line, "text"));
    }
}

static json_t *tell_run(const struct box_work *work, const json_t *result)
{
    cleanup_buf struct buf out = {0}, err = {0}, footer = {0};
    const json_t *lines = json_object_get(result, "output");
    const json_t *exit_code = json_object_get(result, "exit_code");
    bool is_cut = json_object_get(result, "output_bytes") != NULL;
    join_lines(&out, lines, "stdout");
    join_lines(&err, lines, "stderr");
    if (json_object_get(result, "command"))
        buf_printf(&footer, "[exit code %lld", (long long)json_integer_value(exit_code));
    else
        buf_printf(&footer, "[%s", text_of(result, "status"));
    buf_printf(&footer, ", %lld ms%s]",
               (long long)json_integer_value(json_object_get(result, "duration_us")) / 1000,
               json_object_get(result, "state_lost") ? ", variables are gone" : "");
    return answer_run(&(struct run_told){.out = buf_text(&out),
                                         .err = buf_text(&err),
                                         .out_cut = is_cut,
                                         .footer = buf_text(&footer),
                                         .id = work->job->handle,
                                         .results = json_object_get(result, "results"),
                                         .pictures = work->pictures.wanted});
}

static json_t *tell(const struct box_work *work, const json_t *message)
{
    json_t *result = json_object_get(message, "result");
    if (!result)
        return tell_error(json_object_get(message, "error"));
    if (json_is_string(result))
        return answer_text(json_string_value(result));
    return json_object_get(result, "output") ? tell_run(work, result)
                                             : answer_data(json_incref(result));
}

/* ---- calls ---------------------------------------------------------------------------------- */

static void on_shown(struct pictures *pictures)
{
    struct box_work *work = pictures->context;
    struct job *job = work->job;
    json_t *answer = pictures->answer;
    json_decref(pictures->wanted);
    free(work);
    job_end(job, answer);
}

static void on_answered(struct rpc_asker *asker, json_t *message)
{
    struct box_work *work = (struct box_work *)asker;
    struct job *job = work->job;
    work->pictures = (struct pictures){.server = job->server,
                                       .scope = job->scope,
                                       .namespace = job->namespace,
                                       .sandbox = xstrdup(text_of(job->arguments, "sandbox")),
                                       .wanted = json_array(),
                                       .shown = on_shown,
                                       .context = work};
    work->pictures.answer = tell(work, message);
    json_decref(message);
    work->is_showing = true;
    pictures_show(&work->pictures);
}

static void on_printed(struct rpc_asker *asker, const uint8_t *bytes, size_t length)
{
    job_print(((struct box_work *)asker)->job, bytes, length);
}

static void abandon(struct job *job)
{
    struct box_work *work = job->work;
    if (work->is_showing) {
        pictures_abandon(&work->pictures);
        json_decref(work->pictures.wanted);
        json_decref(work->pictures.answer);
    } else {
        rpc_abandon(&work->asker);
    }
    free(work);
}

static void run(struct mcp_call *call, const json_t *arguments, const char *method)
{
    struct error err;
    struct server *server = tools_server(call);
    const char *namespace = json_string_value(json_object_get(arguments, "namespace"));
    if (!namespace)
    namespace = tools_namespace(call);
    tools_note(call, namespace, text_of(arguments, "sandbox"));
    if (tools_begin(server, &err) < 0) {
        mcp_succeed(call, answer_error(err.message, err.hint));
        return;
    }
    struct job *job = job_begin(call, arguments, namespace);
    struct box_work *work = xcalloc(1, sizeof *work);
    work->job = job;
    work->asker = (struct rpc_asker){.answered = on_answered, .printed = on_printed};
    job->work = work;
    job->abandon = abandon;
    rpc_run_within(server, job->scope, method, job->arguments, &work->asker);
}

/* One that says nothing of its image gets Python. */
void tool_sandbox_start(struct mcp_call *call, const json_t *arguments)
{
    json_t *wanted = json_deep_copy(arguments);
    json_t *config = json_object_get(wanted, "config");
    if (!config || json_is_null(config)) {
        config = json_object();
        json_object_set_new(wanted, "config", config);
    }
    if (json_is_object(config) && !json_object_get(config, "image") &&
        !json_object_get(config, "snapshot"))
        json_object_set_new(config, "image", json_string("microsandbox/python"));
    run(call, wanted, "sandbox.start");
    json_decref(wanted);
}

void tool_sandbox_stop(struct mcp_call *call, const json_t *arguments)
{
    run(call, arguments, "sandbox.stop");
}

void tool_sandbox_run_code(struct mcp_call *call, const json_t *arguments)
{
    run(call, arguments, "sandbox.repl.run");
}

void tool_sandbox_run_command(struct mcp_call *call, const json_t *arguments)
{
    const char *handle = json_string_value(json_object_get(arguments, "continue"));
    if (handle)
        job_continue(call, handle);
    else
        run(call, arguments, "sandbox.command.run");
}

void tool_sandbox_get_metrics(struct mcp_call *call, const json_t *arguments)
{
    run(call, arguments, "sandbox.metrics.get");
}
