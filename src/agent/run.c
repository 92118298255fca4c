#include "agent/run.h"

#include <signal.h>
#include <string.h>

#include "agent/context.h"
#include "agent/exec_request.h"
#include "agent/loop.h"
#include "agent/spawn.h"
#include "base/clock.h"
#include "base/mem.h"
#include "proto/fields.h"

#define CODE_MAX (16u * 1024 * 1024)

struct run {
    struct stream *stream;
    struct context *context;
    struct context_call call;
    bool submitted;
    uint64_t timeout_ms;
    uint64_t started_us;
    struct loop_timer timer;
    enum verdict stopped; /* VERDICT_TIMEOUT or VERDICT_CANCELLED when it was stopped */
};

static void end_with(struct run *run, struct outcome *outcome)
{
    outcome->duration_us = clock_monotonic_us() - run->started_us;
    stream_end(run->stream, outcome);
    loop_timer_stop(&run->timer);
    buf_free(&run->call.payload);
    free(run);
}

static void end_with_error(struct run *run, const struct error *err)
{
    struct outcome outcome = outcome_error(err);
    end_with(run, &outcome);
}

static void on_ended(void *owner, const struct context_outcome *ended)
{
    struct run *run = owner;
    if (ended->err) {
        end_with_error(run, ended->err);
        return;
    }
    struct outcome outcome = {.verdict = VERDICT_EXITED, .exit_code = ended->exit_code};
    if (ended->died)
        outcome = spawn_ended(ended->status);
    if (ended->out_of_memory)
        outcome.verdict = VERDICT_MEMORY;
    outcome.killed = ended->killed;
    if (run->stopped)
        outcome.verdict = run->stopped;
    outcome.state_lost = ended->died;
    end_with(run, &outcome);
}

static void on_timeout(void *owner)
{
    struct run *run = owner;
    run->stopped = VERDICT_TIMEOUT;
    context_interrupt(run->context, &run->call);
}

/* Time spent waiting for earlier calls does not count. */
static void on_begun(void *owner)
{
    struct run *run = owner;
    run->started_us = clock_monotonic_us();
    if (run->timeout_ms)
        loop_timer_start(&run->timer, run->timeout_ms, on_timeout, run);
}

static void on_data(struct stream *stream, uint8_t channel, const uint8_t *bytes, size_t length)
{
    struct run *run = stream->owner;
    stream_grant(stream, length);
    if (channel != CHANNEL_STDIN || run->submitted)
        return;
    if (buf_length(&run->call.payload) + length > CODE_MAX) {
        struct error err;
        error_set(&err, ERROR_LIMIT, "the code is larger than %u MiB", CODE_MAX >> 20);
        error_hint(&err, "put data into files instead");
        end_with_error(run, &err);
        return;
    }
    buf_append(&run->call.payload, bytes, length);
}

static void on_eof(struct stream *stream, uint8_t channel)
{
    struct run *run = stream->owner;
    if (channel != CHANNEL_STDIN || run->submitted)
        return;
    run->submitted = true;
    context_submit(run->context, &run->call, false);
}

static void on_room(struct stream *stream)
{
    struct run *run = stream->owner;
    context_redirect(run->context, &run->call, stream);
}

static void cancel(struct run *run)
{
    run->stopped = VERDICT_CANCELLED;
    if (run->submitted && !context_withdraw(run->context, &run->call)) {
        context_interrupt(run->context, &run->call);
        return;
    }
    struct outcome outcome = {.verdict = VERDICT_CANCELLED};
    end_with(run, &outcome);
}

static void on_control(struct stream *stream, const uint8_t *fields, uint32_t length)
{
    struct run *run = stream->owner;
    struct exec_control control;
    struct error err;
    if (exec_control_parse(&control, fields, length, &err) < 0)
        return;
    if (control.cancel || control.signal == SIGINT)
        cancel(run);
}

static const struct stream_events events = {
    .data = on_data, .eof = on_eof, .control = on_control, .room = on_room};

static int parse(struct run *run, const uint8_t *fields, uint32_t length, struct error *err)
{
    struct field field;
    uint32_t at = 0;
    int result;
    cleanup_free char *language = NULL;
    while ((result = fields_next(fields, length, &at, &field, err)) > 0) {
        if (field.tag == TAG_LANGUAGE && !language)
            result = field_text(&field, &language, err);
        else if (field.tag == TAG_TIMEOUT_MS)
            result = field_number(&field, &run->timeout_ms, err);
        if (result < 0)
            return result;
    }
    if (result < 0)
        return result;
    run->context = context_find(language ? language : "", err);
    return run->context ? 0 : -1;
}

void run_open(struct stream *stream, const uint8_t *fields, uint32_t length)
{
    struct error err;
    struct run *run = xcalloc(1, sizeof *run);
    run->stream = stream;
    run->started_us = clock_monotonic_us();
    run->call = (struct context_call){
        .kind = 'r', .stream = stream, .begun = on_begun, .ended = on_ended, .owner = run};
    stream->events = &events;
    stream->owner = run;
    if (parse(run, fields, length, &err) < 0)
        end_with_error(run, &err);
}
