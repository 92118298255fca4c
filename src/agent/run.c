#include "agent/run.h"

#include <signal.h>
#include <string.h>

#include "agent/context.h"
#include "agent/driver.h"
#include "agent/exec_request.h"
#include "agent/loop.h"
#include "agent/settings.h"
#include "agent/spawn.h"
#include "base/clock.h"
#include "base/mem.h"
#include "proto/fields.h"

#define CODE_MAX (16u * 1024 * 1024)

struct run {
    struct stream *stream;
    char *id;                        /* of the context; NULL: the first of the language */
    const struct language *language; /* NULL: the context's */
    char **env;
    struct context *context; /* NULL: not submitted */
    struct context_call call;
    size_t code_length;
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
    strv_free(run->env);
    free(run->id);
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
    if (ended->cancelled)
        outcome = (struct outcome){.verdict = VERDICT_CANCELLED};
    if (run->stopped)
        outcome.verdict = run->stopped;
    outcome.state_lost = ended->died || ended->lost;
    outcome.count = ended->count;
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
    if (channel != CHANNEL_STDIN || run->context)
        return;
    run->code_length += length;
    if (run->code_length > CODE_MAX) {
        struct error err;
        error_set(&err, ERROR_LIMIT, "the code is larger than %u MiB", CODE_MAX >> 20);
        error_hint(&err, "put data into files instead");
        end_with_error(run, &err);
        return;
    }
    buf_append(&run->call.payload, bytes, length);
}

static int check_code(const struct run *run, const struct language *language, struct error *err)
{
    const uint8_t *code =
        buf_data(&run->call.payload) + buf_length(&run->call.payload) - run->code_length;
    if (!language->text || run->code_length == 0 || !memchr(code, 0, run->code_length))
        return 0;
    error_set(err, ERROR_INVALID, "the code has a NUL byte in it");
    return error_hint(err, "%s code is text; put data into files instead", language->name);
}

/* The context may have come or gone since the request did. */
static struct context *find_context(const struct run *run, struct error *err)
{
    struct context *context =
        run->id ? context_find(run->id, err) : context_default(run->language, err);
    if (!context || check_code(run, context_language(context), err) < 0)
        return NULL;
    if (!run->language || run->language == context_language(context))
        return context;
    error_set(err, ERROR_INVALID, "the context %s is one of %s", run->id,
              context_language(context)->name);
    error_hint(err, "leave the language out, or use another context");
    return NULL;
}

static void on_eof(struct stream *stream, uint8_t channel)
{
    struct run *run = stream->owner;
    struct error err;
    if (channel != CHANNEL_STDIN || run->context)
        return;
    struct context *context = find_context(run, &err);
    if (!context) {
        end_with_error(run, &err);
        return;
    }
    if (!run->language)
        run->call.kind = context_kind(context);
    run->context = context;
    context_submit(context, &run->call);
}

static void on_room(struct stream *stream)
{
    struct run *run = stream->owner;
    if (run->context)
        context_redirect(run->context, &run->call, stream);
}

static void cancel(struct run *run)
{
    run->stopped = VERDICT_CANCELLED;
    if (run->context && !context_withdraw(run->context, &run->call)) {
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

/* Code that has come in whole runs on. */
static void on_forgotten(struct stream *stream)
{
    struct run *run = stream->owner;
    if (run->context)
        on_room(stream);
    else
        cancel(run);
}

static const struct stream_events events = {.data = on_data,
                                            .eof = on_eof,
                                            .control = on_control,
                                            .room = on_room,
                                            .forgotten = on_forgotten};

static int take_field(void *owner, const struct field *field, struct error *err)
{
    struct run *run = owner;
    switch (field->tag) {
    case TAG_LANGUAGE:
        return language_take(field, &run->language, &run->call.kind, err);
    case TAG_CONTEXT:
        return field_replace_text(field, &run->id, err);
    case TAG_ENV:
        return environment_take(field, &run->env, err);
    case TAG_TIMEOUT_MS:
        return field_number(field, &run->timeout_ms, err);
    case TAG_REHEARSAL:
        run->call.kind = 'w'; /* whatever the language, which stands before */
        return 0;
    default:
        return 0;
    }
}

/* The variables of this call, before its code. */
static void begin_payload(struct run *run)
{
    cleanup_buf struct buf block = {0};
    for (char **at = run->env; at && *at; at++)
        buf_append(&block, *at, strlen(*at) + 1);
    driver_put_number(&run->call.payload, (uint32_t)buf_length(&block));
    buf_append(&run->call.payload, buf_data(&block), buf_length(&block));
}

static int parse(struct run *run, const uint8_t *fields, uint32_t length, struct error *err)
{
    int result = fields_each(fields, length, take_field, run, err);
    if (result < 0)
        return result;
    if (!run->language && !run->id)
        return error_set(err, ERROR_INVALID, "neither a language nor a context was given");
    if (run->id && !context_find(run->id, err))
        return -1;
    begin_payload(run);
    return 0;
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
