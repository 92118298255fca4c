/* Code and commands in sessions: sandbox_run_python, execute_code, execute_command. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "server/tools/internal.h"
#include "server/tools/pictures.h"
#include "session/run.h"
#include "session/session_file.h"

#define CODE_MAX (100u << 10)
#define OUTPUT_MAX (4u << 20)
#define OUTPUT_FOLDER "output"
#define EXECUTE_CODE_S_MAX 300
#define EXECUTE_COMMAND_S_MAX 1800
#define TIMEOUT_S_MAX (24u * 3600)

enum style { PYTHON, EXECUTE_CODE, EXECUTE_COMMAND };

/* A run; then its output is written down, if it is too long for an answer; then its pictures are
 * shown. */
struct run_job {
    struct job *job;
    enum style style;
    struct session_run *run;
    struct session_file *file; /* that is written */
    char *session;
    struct pictures pictures;
    bool is_showing;
};

static void work_free(struct run_job *work)
{
    free(work->session);
    json_decref(work->pictures.wanted);
    json_decref(work->pictures.answer);
    free(work);
}

static void abandon(struct job *job)
{
    struct run_job *work = job->work;
    if (work->run)
        session_run_abandon(work->run);
    else if (work->file)
        session_file_abandon(work->file);
    else if (work->is_showing)
        pictures_abandon(&work->pictures);
    work_free(work);
}

static void end(struct run_job *work, json_t *answer)
{
    struct job *job = work->job;
    work_free(work);
    job_end(job, answer);
}

/* ---- pictures ------------------------------------------------------------------------------- */

static void on_shown(struct pictures *pictures)
{
    struct run_job *work = pictures->context;
    end(work, json_incref(work->pictures.answer));
}

static void show_pictures(struct run_job *work)
{
    json_t *known = sessions_get(work->job->server->sessions, work->job->namespace, work->session);
    const char *sandbox = json_string_value(json_object_get(known, "sandbox_name"));
    work->pictures.sandbox = xstrdup(sandbox ? sandbox : "");
    json_decref(known);
    work->is_showing = true;
    pictures_show(&work->pictures);
}

/* ---- long output ----------------------------------------------------------------------------- */

static void on_written(void *context, const struct file_result *result,
                       const struct session_failure *failure)
{
    struct run_job *work = context;
    work->file = NULL;
    if (!result) {
        cleanup_free char *text =
            xasprintf("[stdout could not be written down: %s]", failure->cause.message);
        answer_note(work->pictures.answer, text);
    }
    show_pictures(work);
}

static void write_output(struct run_job *work, const char *path, const char *text)
{
    struct session_failure failure;
    work->file = session_file_start(
        work->job->server->sessions,
        &(struct session_request){
            .namespace = work->job->namespace, .id = work->session, .must_exist = true},
        &(struct file_work){
            .operation = OP_FILE_WRITE, .path = path, .content = text, .length = strlen(text)},
        on_written, work, &failure);
    if (!work->file)
        on_written(work, NULL, &failure);
}

/* ---- the run -------------------------------------------------------------------------------- */

static char *describe(const struct run_job *work, const struct run_result *result)
{
    unsigned long long ms = (result->duration_us + 500) / 1000;
    if (work->style == PYTHON)
        return xasprintf("[exit code %d, %llu ms, session_id %s, %s%s]", result->exit_code, ms,
                         result->session_id, result->run_id,
                         result->state_lost ? ", variables are gone" : "");
    cleanup_free char *first =
        xasprintf("[Session: %s] [Time: %llums] [Template: %s] [Success: %s]", result->session_id,
                  ms, result->template, result->success ? "True" : "False");
    if (work->style == EXECUTE_CODE)
        return steal_pointer(&first);
    const json_t *arguments = tools_unwrap(work->job->arguments);
    const char *command = json_string_value(json_object_get(arguments, "command"));
    return xasprintf("%s [Command: %.200s] [Exit Code: %d]", first, command, result->exit_code);
}

static void on_ended(void *context, const struct run_result *result,
                     const struct session_failure *failure)
{
    struct run_job *work = context;
    work->run = NULL;
    if (!result) {
        end(work, answer_failure(failure));
        return;
    }
    cleanup_free char *footer = describe(work, result);
    bool is_long = strlen(result->out) > OUTPUT_SHOWN;
    cleanup_free char *rest = is_long ? xasprintf(OUTPUT_FOLDER "/%s.txt", result->run_id) : NULL;
    struct job *job = work->job;
    work->session = xstrdup(result->session_id);
    work->pictures = (struct pictures){.server = job->server,
                                       .scope = job->scope,
                                       .namespace = job->namespace,
                                       .place = {.session = work->session,
                                                 .server = job->server,
                                                 .namespace = job->namespace,
                                                 .base = job->base},
                                       .wanted = json_array(),
                                       .shown = on_shown,
                                       .context = work};
    work->pictures.answer = answer_run(&(struct run_told){
        .out = result->out,
        .err = result->err,
        .out_cut = result->out_truncated,
        .err_cut = result->err_truncated,
        .reader = work->style == PYTHON ? "sandbox_read_artifact" : "execute_command",
        .rest = rest,
        .footer = footer,
        .id = result->run_id,
        .place = work->pictures.place,
        .results = result->results,
        .files = result->files,
        .pictures = work->pictures.wanted});
    resources_tell(job->server, job->namespace, work->session, result->files);
    if (rest)
        write_output(work, rest, result->out);
    else
        show_pictures(work);
}

static void on_printed(void *context, const uint8_t *bytes, size_t length)
{
    struct run_job *work = context;
    job_print(work->job, bytes, length);
}

static void start(struct mcp_call *call, const json_t *arguments, enum style style,
                  struct session_request *request, struct run_work *what)
{
    struct session_failure failure;
    struct run_job *work = xcalloc(1, sizeof *work);
    struct job *job = job_begin(call, arguments, request->namespace);
    work->job = job;
    work->style = style;
    job->work = work;
    job->abandon = abandon;
    what->printed = on_printed;
    what->files = true;
    what->output_max = OUTPUT_MAX;
    work->run = session_run_start(job->server->sessions, request, what, on_ended, work, &failure);
    if (!work->run)
        end(work, answer_failure(&failure));
}

/* ---- calls ---------------------------------------------------------------------------------- */

static int check_code(const char *code, struct session_failure *failure)
{
    struct error err;
    if (strlen(code) <= CODE_MAX)
        return 0;
    error_set(&err, ERROR_LIMIT, "the code has %zu bytes, at most %u are taken", strlen(code),
              CODE_MAX);
    error_hint(&err, "put data into a file with sandbox_upload_file");
    return failure_wrap(failure, FAILURE_REQUEST, "code_size", NULL, &err);
}

static int prepare(struct mcp_call *call, const json_t *arguments, uint64_t longest,
                   struct session_request *request, struct run_work *work,
                   struct session_failure *failure)
{
    struct error err;
    *request = (struct session_request){.namespace = tools_namespace(call)};
    if (tools_begin(tools_server(call), &err) < 0)
        return failure_wrap(failure, FAILURE_NONE, NULL, NULL, &err);
    return tools_text(arguments, "session_id", &request->id, failure) < 0 ||
                   tools_text(arguments, "template", &request->template, failure) < 0 ||
                   tools_text(arguments, "flavor", &request->flavor, failure) < 0 ||
                   tools_number(arguments, "timeout", longest, &work->timeout_s, failure) < 0
               ? -1
               : 0;
}

static void run_code(struct mcp_call *call, const json_t *arguments, enum style style)
{
    struct session_failure failure;
    struct session_request request;
    struct run_work work = {0};
    const json_t *given = style == PYTHON ? arguments : tools_unwrap(arguments);
    uint64_t longest = style == PYTHON ? TIMEOUT_S_MAX : EXECUTE_CODE_S_MAX;
    if (prepare(call, given, longest, &request, &work, &failure) < 0 ||
        tools_need_text(given, "code", &work.code, &failure) < 0 ||
        (style == PYTHON && check_code(work.code, &failure) < 0)) {
        mcp_succeed(call, answer_failure(&failure));
        return;
    }
    cleanup_free char *own = style == PYTHON && !request.id ? tools_new_session() : NULL;
    if (style == PYTHON) {
        request.id = own ? own : request.id;
        request.template = "python";
        work.language = "python";
    }
    request.wait = style != PYTHON;
    tools_note(call, request.namespace, request.id ? request.id : "");
    start(call, arguments, style, &request, &work);
}

void tool_run_python(struct mcp_call *call, const json_t *arguments)
{
    run_code(call, arguments, PYTHON);
}

void tool_execute_code(struct mcp_call *call, const json_t *arguments)
{
    run_code(call, arguments, EXECUTE_CODE);
}

void tool_execute_command(struct mcp_call *call, const json_t *arguments)
{
    struct session_failure failure;
    struct session_request request;
    struct run_work work = {0};
    const json_t *given = tools_unwrap(arguments);
    const char *command, *handle = json_string_value(json_object_get(given, "continue"));
    if (handle) {
        job_continue(call, handle);
        return;
    }
    if (prepare(call, given, EXECUTE_COMMAND_S_MAX, &request, &work, &failure) < 0 ||
        tools_need_text(given, "command", &command, &failure) < 0) {
        mcp_succeed(call, answer_failure(&failure));
        return;
    }
    cleanup_strv char **argv = NULL;
    strv_append(&argv, xstrdup("sh"));
    strv_append(&argv, xstrdup("-c"));
    strv_append(&argv, xstrdup(command));
    work.argv = argv;
    request.wait = true;
    tools_note(call, request.namespace, request.id ? request.id : "");
    start(call, arguments, EXECUTE_COMMAND, &request, &work);
}
