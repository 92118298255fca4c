/* sandbox.repl.run, sandbox.repl.stream, sandbox.command.run. */
#include <string.h>

#include "base/mem.h"
#include "sandbox/requests.h"
#include "server/gather.h"
#include "server/rpc.h"

#define TIMEOUT_MAX (365ull * 24 * 3600)
#define STREAM_WAITING_MAX (256u << 10)

static const uint64_t output_max = GATHER_OUTPUT_MAX;

/* Code or a command under way. When the client leaves, it is cancelled. */
struct run {
    struct gather gather;
    struct rpc_call *call; /* NULL: the client has left, or it is a stream */
    struct http_request *stream;
    json_t *body;  /* keeps the texts below */
    size_t unpaid; /* of a stream: bytes whose credit waits for the client to read */
    const char *language, *code, *command;
    uint64_t timeout_s;
};

static void run_left(struct rpc_call *call)
{
    struct run *run = call->context;
    run->call = NULL;
    call_cancel(&run->gather.collection.call);
}

static void on_printed(struct gather *gather, const uint8_t *bytes, size_t length)
{
    const struct run *run = gather->context;
    if (run->call)
        run->call->asker->printed(run->call->asker, bytes, length);
}

static struct run *run_new(struct rpc_call *call)
{
    struct run *run = xcalloc(1, sizeof *run);
    run->call = call;
    if (call->asker && call->asker->printed)
        run->gather.printed = on_printed;
    run->body = json_incref(call->body);
    run->gather.context = run;
    call->context = run;
    return run;
}

static void run_free(struct run *run)
{
    gather_free(&run->gather);
    json_decref(run->body);
    free(run);
}

static void run_refuse(struct run *run, const struct error *err)
{
    rpc_fail(run->call, err);
    run_free(run);
}

/* ---- code ---------------------------------------------------------------------------------- */

/* What stands in the output of code that did not come to its end; NULL when it did. */
static char *explain(const struct run *run, const struct outcome *outcome)
{
    const char *lost = outcome->state_lost ? "; its variables are gone" : "";
    switch (outcome->verdict) {
    case VERDICT_TIMEOUT:
        return xasprintf("Error: the code timed out after %llu seconds%s",
                         (unsigned long long)run->timeout_s, lost);
    case VERDICT_MEMORY:
        return xasprintf("Error: the code was ended because memory ran out%s", lost);
    default:
        return outcome->state_lost ? xasprintf("Error: the interpreter ended%s", lost) : NULL;
    }
}

static void add_text(struct lines *lines, enum channel channel, const json_t *text)
{
    if (json_string_length(text) > 0)
        lines_take(lines, channel, json_string_value(text), json_string_length(text));
    lines_finish(lines);
}

/* Results and tracebacks are lines too, for those who look at nothing else. */
static void add_results(struct run *run, const char *problem)
{
    struct collection *collection = &run->gather.collection;
    for (size_t i = 0; i < json_array_size(collection->records); i++)
        add_text(&run->gather.lines, CHANNEL_STDOUT,
                 json_object_get(json_array_get(collection->records, i), "text"));
    add_text(&run->gather.lines, CHANNEL_STDERR, json_object_get(collection->error, "traceback"));
    if (problem)
        lines_take(&run->gather.lines, CHANNEL_STDERR, problem, strlen(problem));
    lines_finish(&run->gather.lines);
}

static json_t *describe(struct run *run, const struct outcome *outcome)
{
    run->gather.collection.invalid |= run->gather.lines.invalid;
    json_t *result = collect_json(&run->gather.collection, outcome);
    json_object_del(result, "output");
    return result;
}

static json_t *describe_run(struct run *run, const struct outcome *outcome)
{
    cleanup_free char *problem = explain(run, outcome);
    json_t *result = describe(run, outcome);
    bool failed = problem || run->gather.collection.error;
    json_object_set_new(result, "status", json_string(failed ? "error" : "success"));
    json_object_set_new(result, "language", json_string(run->language));
    add_results(run, problem);
    return result;
}

static bool could_not_run(const struct outcome *outcome)
{
    return outcome->verdict == VERDICT_ERROR || outcome->verdict == VERDICT_CANCELLED;
}

static struct error failure_of(const struct outcome *outcome)
{
    struct error err = outcome->error;
    if (err.code == ERROR_NONE)
        error_set(&err, ERROR_CANCELLED, "the call was cancelled");
    return err;
}

static void add_timing(const struct run *run, const struct outcome *outcome)
{
    if (run->call && run->call->request)
        http_add_timing(run->call->request, "inside", outcome->duration_us);
}

static void on_run_ended(struct gather *gather, const struct outcome *outcome)
{
    struct run *run = gather->context;
    struct error err = failure_of(outcome);
    add_timing(run, outcome);
    if (run->call && could_not_run(outcome))
        rpc_fail(run->call, &err);
    else if (run->call)
        rpc_succeed_with(run->call, describe_run(run, outcome), &run->gather.lines);
    run_free(run);
}

/* Reads the parameters; NULL: the call has failed. */
static struct run *prepare_run(struct rpc_call *call, const uint64_t *limit, struct buf *fields,
                               struct box **box)
{
    struct error err;
    struct run *run = run_new(call);
    const char *context = NULL;
    if (rpc_need_text(call, "code", &run->code, &err) < 0 ||
        rpc_need_text(call, "language", &run->language, &err) < 0 ||
        rpc_text(call, "context", &context, &err) < 0 ||
        rpc_number(call, "timeout", TIMEOUT_MAX, &run->timeout_s, &err) < 0) {
        run_refuse(run, &err);
        return NULL;
    }
    *box = rpc_box(call);
    if (!*box) {
        run_free(run);
        return NULL;
    }
    run_request_fields(fields, &(struct run_request){.language = run->language,
                                                     .context = context,
                                                     .timeout_ms = run->timeout_s * 1000,
                                                     .output_limit = limit});
    if (buf_length(fields) <= FRAME_MAX)
        return run;
    error_set(&err, ERROR_LIMIT, "the names in the request are too long");
    run_refuse(run, &err);
    return NULL;
}

void method_repl_run(struct rpc_call *call)
{
    cleanup_buf struct buf fields = {0};
    struct box *box;
    struct run *run = prepare_run(call, &output_max, &fields, &box);
    if (!run)
        return;
    call->left = run_left;
    run->gather.ended = on_run_ended;
    gather_start(&run->gather, &box->client, OP_RUN, &fields, run->code, strlen(run->code));
}

/* ---- code, as it prints -------------------------------------------------------------------- */

static void send_json(struct run *run, const char *event, const json_t *json)
{
    cleanup_free char *text = json_dumps(json, JSON_COMPACT);
    http_send_event(run->stream, event, text);
}

static void send_each(struct run *run, const char *event, json_t *items)
{
    for (size_t i = 0; i < json_array_size(items); i++)
        send_json(run, event, json_array_get(items, i));
    json_array_clear(items);
}

static void send_collected(struct run *run)
{
    send_each(run, "output", run->gather.collection.pieces);
    send_each(run, "result", run->gather.collection.records);
}

static void pay(struct run *run)
{
    call_consumed(&run->gather.collection.call, run->unpaid);
    run->unpaid = 0;
}

static void on_stream_data(struct client_call *call, enum channel channel, const uint8_t *bytes,
                           size_t length)
{
    struct run *run = call->context;
    if (run->stream) {
        collect_take(&run->gather.collection, channel, bytes, length);
        send_collected(run);
    }
    run->unpaid += length;
    if (!run->stream || http_waiting(run->stream) < STREAM_WAITING_MAX)
        pay(run);
}

static void on_stream_drained(struct http_request *request)
{
    pay(request->context);
}

static void on_stream_gone(struct http_request *request)
{
    struct run *run = request->context;
    run->stream = NULL;
    call_cancel(&run->gather.collection.call);
    pay(run); /* its end comes behind the output that still waits for credit */
}

static void on_stream_end(struct client_call *call, const struct outcome *outcome)
{
    struct run *run = call->context;
    if (run->stream) {
        collect_finish(&run->gather.collection);
        send_collected(run);
        json_t *result = describe_run(run, outcome);
        send_json(run, "end", result);
        json_decref(result);
        http_stream_end(run->stream);
    }
    run_free(run);
}

void method_repl_stream(struct rpc_call *call)
{
    static const struct call_handlers handlers = {.data = on_stream_data, .end = on_stream_end};
    cleanup_buf struct buf fields = {0};
    struct box *box;
    struct run *run = prepare_run(call, NULL, &fields, &box);
    if (!run)
        return;
    run->call = NULL;
    run->stream = rpc_release(call);
    run->stream->context = run;
    run->stream->gone = on_stream_gone;
    run->stream->drained = on_stream_drained;
    http_add_header(run->stream, "Cache-Control", "no-store");
    http_stream_begin(run->stream, 200, "text/event-stream");
    collect_begin(&run->gather.collection);
    call_start(&box->client, &run->gather.collection.call, OP_RUN, &fields, &handlers, run);
    call_give(&run->gather.collection.call, run->code, strlen(run->code));
}

/* ---- commands ------------------------------------------------------------------------------ */

static json_t *describe_command(struct run *run, const struct outcome *outcome)
{
    int exit_code =
        outcome->verdict == VERDICT_SIGNALED ? 128 + outcome->signal : outcome->exit_code;
    json_t *result = describe(run, outcome);
    json_t *args = json_object_get(json_object_get(run->body, "params"), "args");
    json_object_set_new(result, "command", json_string(run->command));
    json_object_set_new(result, "args", json_is_array(args) ? json_incref(args) : json_array());
    json_object_set_new(result, "exit_code", json_integer(exit_code));
    json_object_set_new(result, "success", json_boolean(exit_code == 0));
    json_object_del(result, "results");
    return result;
}

static void on_command_ended(struct gather *gather, const struct outcome *outcome)
{
    struct run *run = gather->context;
    struct error err = failure_of(outcome);
    add_timing(run, outcome);
    if (outcome->verdict == VERDICT_TIMEOUT)
        error_set(&err, ERROR_TIMEOUT, "the command timed out after %llu seconds and was ended",
                  (unsigned long long)run->timeout_s);
    else if (outcome->verdict == VERDICT_MEMORY)
        error_set(&err, ERROR_NO_SPACE, "the command was ended because memory ran out");
    if (run->call && (could_not_run(outcome) || outcome->verdict == VERDICT_TIMEOUT ||
                      outcome->verdict == VERDICT_MEMORY))
        rpc_fail_as(run->call, RPC_INTERNAL, &err);
    else if (run->call)
        rpc_succeed_with(run->call, describe_command(run, outcome), &run->gather.lines);
    run_free(run);
}

static int command_fields(struct run *run, struct buf *fields, struct error *err)
{
    struct rpc_call *call = run->call;
    struct exec_request request = {.output_limit = &output_max};
    cleanup_free char **args = NULL;
    if (rpc_need_text(call, "command", &run->command, err) < 0 ||
        rpc_texts(call->params, "args", &args, err) < 0 ||
        rpc_text(call, "cwd", &request.cwd, err) < 0 ||
        rpc_number(call, "timeout", TIMEOUT_MAX, &run->timeout_s, err) < 0)
        return -1;
    size_t count = strv_length(args);
    cleanup_free char **argv = xcalloc(count + 2, sizeof *argv);
    argv[0] = (char *)(uintptr_t)run->command;
    for (size_t i = 0; i < count; i++)
        argv[i + 1] = args[i];
    request.argv = argv;
    request.timeout_ms = run->timeout_s * 1000;
    exec_request_fields(fields, &request);
    return buf_length(fields) > FRAME_MAX ? error_set(err, ERROR_LIMIT, "the command is too long")
                                          : 0;
}

void method_command_run(struct rpc_call *call)
{
    struct error err;
    cleanup_buf struct buf fields = {0};
    struct run *run = run_new(call);
    if (command_fields(run, &fields, &err) < 0) {
        run_refuse(run, &err);
        return;
    }
    struct box *box = rpc_box(call);
    if (!box) {
        run_free(run);
        return;
    }
    call->left = run_left;
    run->gather.ended = on_command_ended;
    gather_start(&run->gather, &box->client, OP_EXEC, &fields, NULL, 0);
}
