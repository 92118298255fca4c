#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/mem.h"
#include "sandbox/launch.h"
#include "sandbox/requests.h"
#include "session/run_internal.h"

#define RECORD_BYTES_MAX (48u << 20)
#define RECORDS_MAX 20000
#define FIELDS_MAX FRAME_MAX
/* More output comes than is kept, so that one loud stream leaves the other one its part. */
#define OUTPUT_ROOM (8u << 20)

static void run_free(struct session_run *run)
{
    free(run->code);
    free(run->language);
    strv_free(run->argv);
    strv_free(run->env);
    collect_free(&run->records);
    records_free(&run->change_records);
    json_decref(run->files);
    buf_free(&run->streams[0]);
    buf_free(&run->streams[1]);
    free(run);
}

/* ---- the call ------------------------------------------------------------------------------ */

static void take_output(struct session_run *run, size_t stream, const uint8_t *bytes, size_t length)
{
    size_t room = run->output_max - buf_length(&run->streams[stream]);
    if (length > room) {
        run->truncated[stream] = true;
        length = room;
    }
    buf_append(&run->streams[stream], bytes, length);
}

static void on_data(struct client_call *call, enum channel channel, const uint8_t *bytes,
                    size_t length)
{
    struct session_run *run = call->context;
    call_consumed(call, length);
    if (channel == CHANNEL_STDOUT || channel == CHANNEL_STDERR) {
        take_output(run, channel == CHANNEL_STDERR, bytes, length);
        if (run->printed && run->ended)
            run->printed(run->context, bytes, length);
        return;
    }
    run->taken += length;
    if (run->is_full || channel != CHANNEL_RESULTS)
        return;
    collect_take(&run->records, channel, bytes, length);
    run->is_full =
        run->taken > RECORD_BYTES_MAX || json_array_size(run->records.records) > RECORDS_MAX;
    if (run->is_full)
        call_cancel(call);
}

static void keep_outcome(struct session_run *run, const struct outcome *outcome)
{
    run->outcome = *outcome;
    run->outcome.status = run->outcome.killed = NULL;
    if (outcome->output_bytes > 0)
        run->truncated[0] = run->truncated[1] = true;
    if (!run->is_full)
        return;
    run->outcome.verdict = VERDICT_ERROR;
    error_set(&run->outcome.error, ERROR_LIMIT,
              "the results are too large, so the call was cancelled");
    error_hint(&run->outcome.error, "show less at once, or write it to a file");
}

static void on_end(struct client_call *call, const struct outcome *outcome)
{
    struct session_run *run = call->context;
    run->is_running = false;
    keep_outcome(run, outcome);
    if (run->is_watching)
        run_files_end(run);
    else
        run_finish(run);
}

void run_finish(struct session_run *run)
{
    bool failed = run->outcome.verdict == VERDICT_ERROR ||
                  run->outcome.verdict == VERDICT_CANCELLED ||
                  run->outcome.verdict == VERDICT_TIMEOUT || run->outcome.verdict == VERDICT_MEMORY;
    if (run->ended)
        run_report(run, &run->outcome);
    session_release(&run->lease, failed);
    run_free(run);
}

static void describe(const struct session_run *run, const struct session *session,
                     struct buf *fields)
{
    uint64_t limit = 2 * (uint64_t)run->output_max + OUTPUT_ROOM;
    const char *language = run->language ? run->language : session_language(session);
    if (run->argv)
        exec_request_fields(fields, &(struct exec_request){.argv = run->argv,
                                                           .env = run->env,
                                                           .timeout_ms = run->timeout_s * 1000,
                                                           .output_limit = &limit});
    else
        run_request_fields(fields, &(struct run_request){.language = language,
                                                         .env = run->env,
                                                         .timeout_ms = run->timeout_s * 1000,
                                                         .output_limit = &limit});
}

static enum operation operation_of(const struct session_run *run)
{
    return run->argv ? OP_EXEC : run->code ? OP_RUN : OP_STATUS;
}

/* Only what is short, and comes first. */
static bool put_call(const struct session_lease *lease, const struct session *session,
                     struct buf *frames)
{
    const struct session_run *run = lease->context;
    const char *code = run->code ? run->code : "";
    cleanup_buf struct buf fields = {0};
    enum operation operation = operation_of(run);
    if (run->wants_files || operation == OP_STATUS || strlen(code) > LAUNCH_CALL_MAX)
        return false;
    describe(run, session, &fields);
    call_frames(frames, operation, &fields, code, strlen(code));
    return buf_length(frames) <= LAUNCH_CALL_MAX;
}

void run_lose(struct session_run *run)
{
    struct error err;
    error_set(&err, ERROR_UNAVAILABLE, "the sandbox ended before the call could begin");
    run->outcome = outcome_error(&err);
    run_finish(run);
}

void run_begin(struct session_run *run, struct sandbox_client *client)
{
    static const struct call_handlers handlers = {.data = on_data, .end = on_end};
    cleanup_buf struct buf fields = {0};
    enum operation operation = operation_of(run);
    run->is_running = true;
    if (run->lease.came_along && client->has_call) {
        call_join_first(client, &run->call, &handlers, run);
        return;
    }
    if (operation != OP_STATUS)
        describe(run, run->lease.session, &fields);
    call_start(client, &run->call, operation, &fields, &handlers, run);
    if (operation != OP_STATUS)
        call_give(&run->call, run->code, run->code ? strlen(run->code) : 0);
}

/* ---- beginning and leaving ----------------------------------------------------------------- */

static void begin_work(struct session_run *run, struct sandbox_client *client)
{
    if (run->wants_files)
        run_files_begin(run, client);
    else
        run_begin(run, client);
}

static void on_ready(struct session_lease *lease, const struct session_failure *failure)
{
    struct session_run *run = lease->context;
    struct sandbox_client *client = failure ? NULL : session_client(lease);
    if (client) {
        begin_work(run, client);
        return;
    }
    if (!failure) {
        run_lose(run);
        return;
    }
    if (run->ended)
        run->ended(run->context, NULL, failure);
    run_free(run);
}

static void name_run(struct session_run *run)
{
    uint16_t number;
    struct tm parts;
    time_t now = time(NULL);
    if (getrandom(&number, sizeof number, 0) != sizeof number)
        abort();
    gmtime_r(&now, &parts);
    size_t used = strftime(run->run_id, sizeof run->run_id, "run_%Y%m%dT%H%M%SZ", &parts);
    snprintf(run->run_id + used, sizeof run->run_id - used, "_%04x", number);
}

static char **copy_list(char *const *list)
{
    char **copy = NULL;
    for (size_t i = 0; list && list[i]; i++)
        strv_append(&copy, xstrdup(list[i]));
    return copy;
}

static int check_size(const struct session_run *run, const struct session_request *request,
                      struct session_failure *failure)
{
    size_t length = 0;
    for (size_t i = 0; run->argv && run->argv[i]; i++)
        length += strlen(run->argv[i]) + 16;
    for (size_t i = 0; run->env && run->env[i]; i++)
        length += strlen(run->env[i]) + 16;
    if (length + 1024 < FIELDS_MAX)
        return 0;
    error_set(&failure->cause, ERROR_INVALID, "the command and its environment are too long");
    error_hint(&failure->cause, "write it to a file and run that");
    return failure_set(failure, FAILURE_REQUEST, NULL, request->id);
}

static struct session_run *begin(struct session_run *run, const struct session_request *request,
                                 struct session_failure *failure)
{
    run->lease.ready = on_ready;
    run->lease.call = put_call;
    run->lease.context = run;
    collect_begin(&run->records);
    name_run(run);
    int granted = check_size(run, request, failure);
    if (granted == 0)
        granted = session_acquire(run->sessions, &run->lease, request, failure);
    if (granted < 0) {
        run_free(run);
        return NULL;
    }
    if (granted)
        begin_work(run, session_client(&run->lease));
    return run;
}

struct session_run *session_run_start(struct sessions *sessions,
                                      const struct session_request *request,
                                      const struct run_work *work, run_ended *ended, void *context,
                                      struct session_failure *failure)
{
    struct session_run *run = xcalloc(1, sizeof *run);
    run->sessions = sessions;
    run->ended = ended;
    run->printed = work->printed;
    run->context = context;
    run->code = work->code ? xstrdup(work->code) : NULL;
    run->language = work->language ? xstrdup(work->language) : NULL;
    run->argv = copy_list(work->argv);
    run->env = copy_list(work->env);
    run->timeout_s = work->timeout_s ? work->timeout_s : sessions_settings(sessions)->execution_s;
    run->output_max = work->output_max ? work->output_max : RUN_OUTPUT_DEFAULT;
    run->wants_files = work->files;
    return begin(run, request, failure);
}

void session_run_abandon(struct session_run *run)
{
    run->ended = NULL;
    if (run->is_running) {
        call_cancel(&run->call);
    } else if (run->is_watching) {
        call_cancel(&run->changes);
    } else {
        session_abandon(&run->lease);
        run_free(run);
    }
}
