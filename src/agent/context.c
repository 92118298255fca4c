#include "agent/context.h"

#include <string.h>

#include "agent/interpreter.h"
#include "base/json_text.h"
#include "base/mem.h"

#define ID_MAX 64

struct context {
    char *id;
    char kind;
    char **env;
    struct interpreter interpreter;
    struct context_call *queue; /* the first is running when `busy` */
    bool busy;
    uint64_t count;
    bool lost; /* the interpreter died after a call, and nobody was told */
    struct context *next;
};

static struct context *contexts;

static void begin_next(struct context *context);

static struct context *find(const char *id)
{
    struct context *at = contexts;
    while (at && strcmp(at->id, id) != 0)
        at = at->next;
    return at;
}

struct context *context_find(const char *id, struct error *err)
{
    struct context *found = find(id);
    if (found)
        return found;
    error_set(err, ERROR_NOT_FOUND, "there is no context %.64s", id);
    json_text_clean(err->message);
    error_hint(err, "make it first, or leave the context out to use the first one of a language");
    return NULL;
}

struct context *context_next(const struct context *context)
{
    return context ? context->next : contexts;
}

const struct language *context_language(const struct context *context)
{
    return context->interpreter.language;
}

char context_kind(const struct context *context)
{
    return context->kind;
}

void context_tell(struct context *context, const struct buf *notice)
{
    if (context->interpreter.pid > 0)
        interpreter_tell(&context->interpreter, notice);
}

bool context_warm(struct context *context)
{
    if (context->interpreter.phase != INTERPRETER_NONE)
        return false;
    context->interpreter.warm = true;
    return true;
}

static bool is_code(const struct context_call *call)
{
    return call->kind == 'r' || call->kind == 't';
}

/* The one place where a call that has begun ends. */
static void end_call(struct context *context, struct context_outcome *outcome)
{
    struct context_call *call = context->queue;
    context->queue = call->next;
    context->busy = false;
    outcome->count = context->count;
    outcome->lost = context->lost;
    context->lost &= !is_code(call);
    call->ended(call->owner, outcome);
}

static void on_up(void *owner)
{
    begin_next(owner);
}

/* Everybody who waits hears why the interpreter cannot be had; one of them may remove us. */
static void on_failed(void *owner, const struct error *err)
{
    struct context *context = owner;
    struct context_outcome outcome = {.err = err};
    struct context_call *waiting = steal_pointer(&context->queue);
    while (waiting) {
        struct context_call *call = waiting;
        waiting = call->next;
        call->ended(call->owner, &outcome);
    }
}

static void on_done(void *owner, int exit_code)
{
    struct context *context = owner;
    struct context_outcome outcome = {.exit_code = exit_code,
                                      .killed = context->interpreter.killed};
    end_call(context, &outcome);
    begin_next(context);
}

static void on_died(void *owner, int status)
{
    struct context *context = owner;
    struct context_outcome outcome = {.died = true,
                                      .status = status,
                                      .out_of_memory = context->interpreter.out_of_memory,
                                      .killed = context->interpreter.killed};
    if (context->busy)
        end_call(context, &outcome);
    else if (context->count > 0)
        context->lost = true;
    begin_next(context);
}

static const struct interpreter_events events = {
    .up = on_up, .failed = on_failed, .done = on_done, .died = on_died};

static void start(struct context *context)
{
    struct error err;
    context->count = 0;
    if (interpreter_start(&context->interpreter, &err) < 0)
        on_failed(context, &err);
}

static void begin_next(struct context *context)
{
    struct context_call *call;
    while ((call = context->queue) && call->kind == 0 &&
           context->interpreter.phase == INTERPRETER_IDLE) {
        struct context_outcome up = {0};
        end_call(context, &up);
    }
    if (call && context->interpreter.phase == INTERPRETER_NONE)
        start(context);
    else if (call && context->interpreter.phase == INTERPRETER_IDLE) {
        context->busy = true;
        context->count += is_code(call);
        if (call->begun)
            call->begun(call->owner);
        interpreter_call(&context->interpreter, call->stream, call->kind, &call->payload);
        buf_free(&call->payload);
    }
}

void context_submit(struct context *context, struct context_call *call)
{
    struct context_call **at = &context->queue;
    while (*at)
        at = &(*at)->next;
    call->next = NULL;
    *at = call;
    begin_next(context);
}

static bool is_running(const struct context *context, const struct context_call *call)
{
    return context->busy && context->queue == call;
}

void context_interrupt(struct context *context, const struct context_call *call)
{
    if (is_running(context, call))
        interpreter_interrupt(&context->interpreter);
}

bool context_withdraw(struct context *context, const struct context_call *call)
{
    struct context_call **at = &context->queue;
    if (is_running(context, call))
        return false;
    while (*at && *at != call)
        at = &(*at)->next;
    if (*at)
        *at = call->next;
    return true;
}

void context_redirect(struct context *context, struct context_call *call, struct stream *stream)
{
    call->stream = stream;
    if (is_running(context, call))
        interpreter_redirect(&context->interpreter, stream);
}

static void cancel_running(struct context *context)
{
    struct context_outcome outcome = {.cancelled = true, .died = true};
    interpreter_kill(&context->interpreter);
    if (context->busy)
        end_call(context, &outcome);
}

void context_restart(struct context *context, struct context_call *call)
{
    cancel_running(context);
    call->next = context->queue;
    context->queue = call;
    begin_next(context);
}

void context_remove(struct context *context)
{
    struct context_outcome outcome = {.cancelled = true};
    cancel_running(context);
    while (context->queue)
        end_call(context, &outcome);
    struct context **at = &contexts;
    while (*at != context)
        at = &(*at)->next;
    *at = context->next;
    strv_free(context->env);
    free(context->interpreter.wanted_cwd);
    free(context->interpreter.cwd);
    free(context->id);
    free(context);
}

/* Names of languages are kept for their first contexts. */
static bool is_kept(const char *id, const struct language *language)
{
    char kind;
    struct error ignored;
    const struct language *named = language_find(id, &kind, &ignored);
    return named && (named != language || strcmp(named->name, id) != 0);
}

static int check_id(const char *id, const struct language *language, struct error *err)
{
    size_t length = strlen(id);
    if (length == 0 || length > ID_MAX ||
        strspn(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") < length) {
        error_set(err, ERROR_INVALID, "a context cannot have this id");
        return error_hint(err, "use 1 to %d letters, digits, dots, dashes and underscores", ID_MAX);
    }
    if (is_kept(id, language)) {
        error_set(err, ERROR_INVALID, "%s is the name of a language", id);
        return error_hint(err, "choose another id");
    }
    if (!find(id))
        return 0;
    error_set(err, ERROR_EXISTS, "there is a context %s already", id);
    return error_hint(err, "use it, remove it, or choose another id");
}

static char *make_up_id(const char *language)
{
    for (unsigned number = 2;; number++) {
        char *id = xasprintf("%s-%u", language, number);
        if (!find(id))
            return id;
        free(id);
    }
}

static int check_count(struct error *err)
{
    unsigned count = 0;
    for (const struct context *at = contexts; at; at = at->next)
        count++;
    if (count < CONTEXTS_MAX)
        return 0;
    error_set(err, ERROR_LIMIT, "the sandbox has %d contexts already", CONTEXTS_MAX);
    return error_hint(err, "remove some that are not needed any more");
}

struct context *context_make(const struct context_request *request, struct error *err)
{
    if (check_count(err) < 0 || (request->id && check_id(request->id, request->language, err) < 0))
        return NULL;
    struct context *context = xcalloc(1, sizeof *context);
    context->id = request->id ? xstrdup(request->id) : make_up_id(request->language->name);
    context->kind = request->kind;
    for (char *const *at = request->env; at && *at; at++)
        strv_append(&context->env, xstrdup(*at));
    context->interpreter = (struct interpreter){
        .language = request->language,
        .env = context->env,
        .wanted_cwd = request->cwd ? xstrdup(request->cwd) : NULL,
        .events = &events,
        .owner = context,
    };
    struct context **at = &contexts;
    while (*at)
        at = &(*at)->next;
    *at = context;
    return context;
}

struct context *context_default(const struct language *language, struct error *err)
{
    struct context_request request = {.language = language, .kind = 'r', .id = language->name};
    struct context *found = find(language->name);
    return found ? found : context_make(&request, err);
}

static const char *state_name(const struct context *context)
{
    if (context->queue)
        return "busy";
    return context->interpreter.phase == INTERPRETER_NONE ? "stopped" : "idle";
}

static void append_text(struct buf *out, const char *name, const char *text)
{
    buf_printf(out, "\"%s\":", name);
    json_text_append(out, text, strlen(text));
    buf_append_text(out, ",");
}

void context_describe(const struct context *context, struct buf *out)
{
    const struct interpreter *interpreter = &context->interpreter;
    const char *wanted = interpreter->wanted_cwd ? interpreter->wanted_cwd : "";
    buf_append_text(out, "{");
    append_text(out, "id", context->id);
    append_text(out, "language", context->kind == 't' ? "typescript" : interpreter->language->name);
    append_text(out, "cwd", interpreter->cwd ? interpreter->cwd : wanted);
    append_text(out, "state", state_name(context));
    buf_printf(out, "\"count\":%llu,\"pid\":%d}", (unsigned long long)context->count,
               interpreter->pid);
}
