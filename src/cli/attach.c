#include "cli/attach.h"

#include <signal.h>
#include <stdio.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "cli/attach_internal.h"
#include "cli/command.h"
#include "proto/fields.h"
#include "sandbox/launch.h"

#define STOP_MS 10000

bool attach_joins(const struct attachment *a)
{
    return a->request->operation == OP_PROCESS_ATTACH;
}

/* ---- the end --------------------------------------------------------------------------------- */

static void leave(struct attachment *a, int exit_code)
{
    a->exit_code = exit_code;
    client_close(&a->client);
    uv_stop(&a->loop);
}

static void on_stopped(struct client_call *call, const struct outcome *outcome)
{
    (void)outcome;
    struct attachment *a = call->context;
    if (!a->request->await_removal)
        leave(a, a->exit_code);
}

/* The keeper closes its side when the state folder is gone. */
static void on_connection_closed(struct sandbox_client *client)
{
    struct attachment *a = client->context;
    uv_stop(&a->loop);
}

static void on_out_of_patience(uv_timer_t *timer)
{
    struct attachment *a = timer->data;
    leave(a, a->exit_code);
}

static void finish(struct attachment *a, int exit_code)
{
    static const struct call_handlers handlers = {.end = on_stopped};
    if (a->stopping)
        return;
    a->working = false;
    a->exit_code = exit_code;
    a->done = clock_monotonic_us();
    attach_restore_terminal(a);
    if (!a->request->stop_afterwards) {
        leave(a, exit_code);
        return;
    }
    a->stopping = true;
    uv_timer_start(&a->patience, on_out_of_patience, STOP_MS, 0);
    call_start(&a->client, &a->stop, OP_STOP, NULL, &handlers, a);
}

/* ---- start ----------------------------------------------------------------------------------- */

struct joined {
    uint64_t offset;
    bool terminal;
};

static int take_joined(void *owner, const struct field *field, struct error *err)
{
    struct joined *joined = owner;
    if (field->tag == TAG_OFFSET)
        return field_number(field, &joined->offset, err);
    return field->tag == TAG_PTY ? field_flag(field, &joined->terminal, err) : 0;
}

static void on_event(struct client_call *call, const uint8_t *fields, uint32_t length)
{
    struct attachment *a = call->context;
    struct joined joined = {0};
    struct error ignored;
    if (!attach_joins(a) || fields_each(fields, length, take_joined, &joined, &ignored) < 0)
        return;
    a->joined_at = joined.offset;
    if (joined.terminal)
        attach_set_raw(a);
    attach_adopt_size(a);
    attach_feed(a);
}

static void on_room(struct client_call *call)
{
    attach_feed(call->context);
}

static void on_work_end(struct client_call *call, const struct outcome *outcome)
{
    struct attachment *a = call->context;
    attach_restore_terminal(a);
    attach_conclude(a, outcome);
    if (a->working)
        finish(a, attach_judge(a, outcome));
}

static void start_work(struct attachment *a)
{
    static const struct call_handlers handlers = {
        .data = attach_on_data, .event = on_event, .room = on_room, .end = on_work_end};
    const struct attach_request *request = a->request;
    call_start(&a->client, &a->work, request->operation, request->fields, &handlers, a);
    a->working = true;
    if (request->input)
        call_give(&a->work, request->input, request->input_length);
}

static void note_place(struct attachment *a, const char *status)
{
    json_t *json = json_loads(status ? status : "{}", 0, NULL);
    const char *accelerator = json_string_value(json_object_get(json, "accelerator"));
    const char *engine = json_string_value(json_object_get(json, "engine"));
    const char *kernel = json_string_value(json_object_get(json, "guest_kernel"));
    a->steps = json_incref(json_object_get(json, "start_steps_us"));
    snprintf(a->place, sizeof a->place, "engine %s, accelerator %s, guest kernel %s",
             engine ? engine : "?", accelerator ? accelerator : "?", kernel ? kernel : "?");
    json_decref(json);
}

static void on_started(struct client_call *call, const struct outcome *outcome)
{
    struct attachment *a = call->context;
    if (outcome->verdict != VERDICT_DONE) {
        a->working = false;
        leave(a, report_error(&outcome->error, EXIT_SANDBOX));
        return;
    }
    a->ready = clock_monotonic_us();
    note_place(a, outcome->status);
    attach_set_raw(a);
    attach_feed(a);
}

static void on_signal(uv_signal_t *watch, int number)
{
    struct attachment *a = watch->data;
    if (number == SIGWINCH) {
        attach_adopt_size(a);
        return;
    }
    if (number == SIGINT && a->working && a->ready && !a->interrupted && !attach_joins(a)) {
        a->interrupted = true;
        call_signal(&a->work, SIGINT);
        return;
    }
    attach_restore_terminal(a);
    a->working = false;
    if (a->ready)
        finish(a, 128 + number);
    else
        leave(a, 128 + number);
}

static void watch_signals(struct attachment *a)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGWINCH};
    for (size_t i = 0; i < 4; i++) {
        uv_signal_init(&a->loop, &a->signals[i]);
        a->signals[i].data = a;
        uv_signal_start(&a->signals[i], on_signal, numbers[i]);
        uv_unref((uv_handle_t *)&a->signals[i]);
    }
}

int attach_run(int connection, const struct attach_request *request)
{
    static const struct call_handlers start_handlers = {.end = on_started};
    static struct attachment a;
    struct error err;
    a = (struct attachment){.request = request, .began = clock_monotonic_us()};
    uv_loop_init(&a.loop);
    uv_timer_init(&a.loop, &a.patience);
    a.patience.data = &a;
    if (client_open(&a.client, &a.loop, connection, &err) < 0)
        return report_error(&err, EXIT_SANDBOX);
    a.client.closed = on_connection_closed;
    a.client.context = &a;
    watch_signals(&a);
    if (cancel_requested())
        return 128 + cancel_signal();
    if (request->starting)
        call_join(&a.client, &a.start, LAUNCH_STREAM, &start_handlers, &a);
    if (request->json)
        collect_begin(&a.answer);
    start_work(&a);
    if (!request->starting)
        a.ready = a.began;
    if (!request->starting && !attach_joins(&a)) {
        attach_set_raw(&a);
        attach_feed(&a);
    }
    uv_run(&a.loop, UV_RUN_DEFAULT);
    attach_restore_terminal(&a);
    records_free(&a.records);
    collect_free(&a.answer);
    attach_tell_place(&a);
    attach_tell_timing(&a);
    json_decref(a.steps);
    return a.exit_code;
}
