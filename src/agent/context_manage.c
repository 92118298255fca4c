#include "agent/context_manage.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "agent/context.h"
#include "agent/exec_request.h"
#include "agent/settings.h"
#include "base/clock.h"
#include "base/json_text.h"
#include "base/mem.h"
#include "proto/fields.h"
#include "proto/wire.h"

struct request {
    struct stream *stream;
    const struct language *language;
    char kind;
    char *id;
    char *cwd;
    char **env;
    uint64_t started_us;
    struct context *context; /* one that is to be up */
    struct context_call call;
    struct buf records; /* still to be sent */
};

static void end_with(struct request *request, struct outcome *outcome)
{
    outcome->duration_us = clock_monotonic_us() - request->started_us;
    stream_end(request->stream, outcome);
    free(request->id);
    free(request->cwd);
    strv_free(request->env);
    buf_free(&request->records);
    free(request);
}

static void end_with_error(struct request *request, struct error *err)
{
    json_text_clean(err->message);
    struct outcome outcome = outcome_error(err);
    end_with(request, &outcome);
}

static int take_field(void *owner, const struct field *field, struct error *err)
{
    struct request *request = owner;
    switch (field->tag) {
    case TAG_LANGUAGE:
        return language_take(field, &request->language, &request->kind, err);
    case TAG_CONTEXT:
        return field_replace_text(field, &request->id, err);
    case TAG_CWD:
        return field_replace_text(field, &request->cwd, err);
    case TAG_ENV:
        return environment_take(field, &request->env, err);
    default:
        return 0;
    }
}

static int check_cwd(const char *cwd, struct error *err)
{
    struct stat status;
    if (!cwd)
        return 0;
    if (cwd[0] != '/')
        return error_set(err, ERROR_INVALID, "the working folder %.400s is no absolute path", cwd);
    if (stat(cwd, &status) < 0) {
        error_errno(err, errno, "cannot use the working folder %.400s", cwd);
        return error_hint(err, "create it in the sandbox or choose another one");
    }
    if (!S_ISDIR(status.st_mode))
        return error_set(err, ERROR_INVALID, "%.400s is no folder", cwd);
    return 0;
}

/* Ends the request once its context is up, or cannot be. A context that never was goes away. */
static void on_up(void *owner, const struct context_outcome *up)
{
    struct request *request = owner;
    if (up->err) {
        struct error err = *up->err;
        if (request->stream->operation == OP_CONTEXT_MAKE)
            context_remove(request->context);
        end_with_error(request, &err);
        return;
    }
    struct outcome outcome = {.verdict = up->cancelled ? VERDICT_CANCELLED : VERDICT_DONE};
    cleanup_buf struct buf status = {0};
    if (!up->cancelled) {
        context_describe(request->context, &status);
        buf_append(&status, "", 1);
        outcome.status = (char *)buf_data(&status);
    }
    end_with(request, &outcome);
}

static int make(struct request *request, struct error *err)
{
    if (!request->language)
        return error_set(err, ERROR_INVALID, "no language was given");
    if (check_cwd(request->cwd, err) < 0)
        return -1;
    struct context_request wanted = {.language = request->language,
                                     .kind = request->kind,
                                     .id = request->id,
                                     .cwd = request->cwd,
                                     .env = request->env};
    request->context = context_make(&wanted, err);
    if (!request->context)
        return -1;
    context_submit(request->context, &request->call);
    return 0;
}

static struct context *find(const struct request *request, struct error *err)
{
    if (request->id)
        return context_find(request->id, err);
    error_set(err, ERROR_INVALID, "no context was given");
    return NULL;
}

static int restart(struct request *request, struct error *err)
{
    request->context = find(request, err);
    if (!request->context)
        return -1;
    context_restart(request->context, &request->call);
    return 0;
}

static int remove_one(struct request *request, struct error *err)
{
    struct outcome done = {0};
    struct context *context = find(request, err);
    if (!context)
        return -1;
    context_remove(context);
    end_with(request, &done);
    return 0;
}

static void send_records(struct request *request)
{
    struct outcome done = {0};
    size_t left;
    while ((left = buf_length(&request->records)) > 0) {
        size_t room = stream_room(request->stream);
        if (room == 0)
            return;
        size_t size = left < room ? left : room;
        size = size < FRAME_MAX ? size : FRAME_MAX;
        stream_send(request->stream, CHANNEL_RESULTS, buf_data(&request->records), size);
        buf_consume(&request->records, size);
    }
    end_with(request, &done);
}

static int list(struct request *request, struct error *err)
{
    (void)err;
    for (const struct context *at = NULL; (at = context_next(at));) {
        cleanup_buf struct buf record = {0};
        uint8_t length[4];
        context_describe(at, &record);
        wire_put32(length, (uint32_t)buf_length(&record));
        buf_append(&request->records, length, sizeof length);
        buf_append(&request->records, buf_data(&record), buf_length(&record));
    }
    send_records(request);
    return 0;
}

static void on_room(struct stream *stream)
{
    struct request *request = stream->owner;
    if (stream->operation == OP_CONTEXT_LIST)
        send_records(request);
}

/* Who gives up on a context that is being made does not want it. */
static void on_control(struct stream *stream, const uint8_t *fields, uint32_t length)
{
    struct request *request = stream->owner;
    struct outcome cancelled = {.verdict = VERDICT_CANCELLED};
    struct exec_control control;
    struct error err;
    if (exec_control_parse(&control, fields, length, &err) < 0 || !control.cancel)
        return;
    if (stream->operation == OP_CONTEXT_MAKE) {
        context_remove(request->context);
        return;
    }
    if (stream->operation == OP_CONTEXT_RESTART)
        context_withdraw(request->context, &request->call);
    end_with(request, &cancelled);
}

static const struct stream_events events = {.control = on_control, .room = on_room};

void context_manage_open(struct stream *stream, const uint8_t *fields, uint32_t length)
{
    static int (*const operations[])(struct request *, struct error *) = {
        [OP_CONTEXT_MAKE] = make,
        [OP_CONTEXT_LIST] = list,
        [OP_CONTEXT_RESTART] = restart,
        [OP_CONTEXT_REMOVE] = remove_one,
    };
    struct error err;
    struct request *request = xcalloc(1, sizeof *request);
    request->stream = stream;
    request->started_us = clock_monotonic_us();
    request->call = (struct context_call){.ended = on_up, .owner = request};
    stream->events = &events;
    stream->owner = request;
    if (fields_each(fields, length, take_field, request, &err) < 0 ||
        operations[stream->operation](request, &err) < 0)
        end_with_error(request, &err);
}
