/* What is told about a run. */
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "session/run_internal.h"

static bool could_not_run(const struct outcome *outcome)
{
    return outcome->verdict == VERDICT_ERROR || outcome->verdict == VERDICT_CANCELLED;
}

/* The program's exit codes as a shell has them. */
static int exit_code_of(const struct session_run *run, const struct outcome *outcome)
{
    if (outcome->verdict == VERDICT_TIMEOUT)
        return -1;
    if (outcome->verdict == VERDICT_MEMORY)
        return 137;
    if (outcome->verdict == VERDICT_SIGNALED)
        return 128 + outcome->signal;
    return outcome->exit_code == 0 && run->records.error ? 1 : outcome->exit_code;
}

static void fail(const struct session_run *run, struct session_failure *failure, const char *detail,
                 const struct error *cause)
{
    enum failure_kind kind = run->argv ? FAILURE_COMMAND : FAILURE_CODE;
    failure_wrap(failure, kind, detail, session_id(run->lease.session), cause);
    failure_set_subject(failure, run->argv ? run->argv[0] : run->code ? run->code : "");
}

static void fail_with(const struct session_run *run, const struct outcome *outcome,
                      struct session_failure *failure)
{
    struct error err = outcome->error;
    const char *what = run->argv ? "command" : "code";
    const char *lost = outcome->state_lost ? "; its variables are gone" : "";
    if (outcome->verdict == VERDICT_TIMEOUT) {
        error_set(&err, ERROR_TIMEOUT, "the %s timed out after %llu seconds%s", what,
                  (unsigned long long)run->timeout_s, lost);
        fail(run, failure, "timeout", &err);
    } else if (outcome->verdict == VERDICT_MEMORY) {
        error_set(&err, ERROR_NO_SPACE, "the %s was ended because memory ran out%s", what, lost);
        fail(run, failure, "memory", &err);
    } else if (err.code == ERROR_UNAVAILABLE) {
        failure_wrap(failure, FAILURE_CONNECTION, NULL, session_id(run->lease.session), &err);
    } else {
        if (err.code == ERROR_NONE)
            error_set(&err, ERROR_CANCELLED, "the call was cancelled");
        bool missing = run->argv && (err.code == ERROR_NOT_FOUND || err.code == ERROR_DENIED);
        fail(run, failure,
             !missing                      ? NULL
             : err.code == ERROR_NOT_FOUND ? "not_found"
                                           : "not_executable",
             &err);
        failure->exit_code = !missing ? 1 : err.code == ERROR_NOT_FOUND ? 127 : 126;
    }
}

/* Texts of results and a traceback are output too, for those who look at nothing else. */
static void add_line(struct buf *text, const char *line)
{
    if (!line || !line[0])
        return;
    if (buf_length(text) > 0 && buf_data(text)[buf_length(text) - 1] != '\n')
        buf_append_text(text, "\n");
    buf_append_text(text, line);
    if (line[strlen(line) - 1] != '\n')
        buf_append_text(text, "\n");
}

static void make_texts(struct session_run *run, const struct session_failure *failure,
                       struct buf texts[2])
{
    size_t index;
    json_t *record;
    utf8_append_valid(&texts[0], buf_data(&run->streams[0]), buf_length(&run->streams[0]));
    utf8_append_valid(&texts[1], buf_data(&run->streams[1]), buf_length(&run->streams[1]));
    json_array_foreach(run->records.records, index, record)
    {
        add_line(&texts[0], json_string_value(json_object_get(record, "text")));
    }
    add_line(&texts[1], json_string_value(json_object_get(run->records.error, "traceback")));
    if (failure->kind)
        add_line(&texts[1], failure->cause.message);
}

void run_report(struct session_run *run, const struct outcome *outcome)
{
    struct session_failure failure = {0};
    cleanup_buf struct buf out = {0}, err = {0};
    const struct session *session = run->lease.session;
    bool ended_badly = outcome->verdict == VERDICT_TIMEOUT || outcome->verdict == VERDICT_MEMORY;
    if (could_not_run(outcome) || ended_badly)
        fail_with(run, outcome, &failure);
    if (could_not_run(outcome)) {
        run->ended(run->context, NULL, &failure);
        return;
    }
    struct buf texts[2] = {0};
    make_texts(run, &failure, texts);
    out = texts[0];
    err = texts[1];
    int exit_code = exit_code_of(run, outcome);
    log_info("session %s/%s: %s %s in %llu ms", session_namespace(session), session_id(session),
             run->argv ? "command" : "code", verdict_name(outcome->verdict),
             (unsigned long long)(outcome->duration_us / 1000));
    struct run_result result = {
        .session_id = session_id(session),
        .template = session_template(session),
        .language = run->language ? run->language : session_language(session),
        .session_created = run->lease.created,
        .run_id = run->run_id,
        .out = buf_text(&out),
        .err = buf_text(&err),
        .out_truncated = run->truncated[0],
        .err_truncated = run->truncated[1],
        .results = run->records.records,
        .error = run->records.error,
        .files = run->files,
        .success = !ended_badly && exit_code == 0,
        .timed_out = outcome->verdict == VERDICT_TIMEOUT,
        .out_of_memory = outcome->verdict == VERDICT_MEMORY,
        .state_lost = outcome->state_lost,
        .exit_code = exit_code,
        .duration_us = outcome->duration_us,
    };
    run->ended(run->context, &result, ended_badly ? &failure : NULL);
}

json_t *run_result_json(const struct run_result *result)
{
    json_t *json = json_pack(
        "{s:s, s:s, s:s, s:s, s:b, s:i, s:I, s:b, s:s, s:b, s:b}", "session_id", result->session_id,
        "run_id", result->run_id, "stdout", result->out, "stderr", result->err, "success",
        result->success, "exit_code", result->exit_code, "execution_time_ms",
        (json_int_t)(result->duration_us + 500) / 1000, "session_created", result->session_created,
        "template", result->template, "stdout_truncated", result->out_truncated, "stderr_truncated",
        result->err_truncated);
    if (json_array_size(result->results) > 0)
        json_object_set_new(json, "results", json_deep_copy(result->results));
    if (result->state_lost)
        json_object_set_new(json, "state_lost", json_true());
    return json;
}
