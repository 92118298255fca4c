/* sandbox.start, stop, pause, resume. */
#include <string.h>

#include "base/mem.h"
#include "image/reference.h"
#include "server/rpc.h"

/* A call that waits for a sandbox, or for one operation of it without output. */
struct life {
    struct rpc_call *call; /* NULL: the client has left */
    struct box_waiter waiter;
    struct client_call operation;
    const char *image; /* of a start: what was asked for */
    struct box *box;   /* of a start: what is waited for */
    const char *done;  /* "started", "stopped", … */
};

static void life_left(struct rpc_call *call)
{
    struct life *life = call->context;
    life->call = NULL;
}

static struct life *life_new(struct rpc_call *call, const char *done)
{
    struct life *life = xcalloc(1, sizeof *life);
    *life = (struct life){.call = call, .done = done, .waiter.context = life};
    call->context = life;
    call->left = life_left;
    return life;
}

static void finish(struct life *life, const struct error *err)
{
    struct rpc_call *call = life->call;
    if (call && err)
        rpc_fail_as(call, err->code == ERROR_EXISTS ? RPC_EXISTS : RPC_INTERNAL, err);
    else if (call)
        rpc_succeed(call, json_sprintf("Sandbox %s %s successfully", call->name, life->done));
    free(life);
}

static void on_waited(struct box_waiter *waiter, const struct error *err)
{
    finish(waiter->context, err);
}

/* ---- stop, pause, resume ------------------------------------------------------------------- */

static void on_done(struct client_call *operation, const struct outcome *outcome)
{
    struct life *life = operation->context;
    finish(life, outcome->error.code == ERROR_NONE ? NULL : &outcome->error);
}

static void operate(struct rpc_call *call, enum operation operation, const char *done)
{
    static const struct call_handlers handlers = {.end = on_done};
    struct box *box = rpc_box(call);
    if (!box)
        return;
    struct life *life = life_new(call, done);
    call_start(&box->client, &life->operation, operation, NULL, &handlers, life);
}

void method_stop(struct rpc_call *call)
{
    struct box *box = rpc_box(call);
    if (!box)
        return;
    struct life *life = life_new(call, "stopped");
    life->waiter.done = on_waited;
    box_stop(box, &life->waiter);
}

void method_pause(struct rpc_call *call)
{
    operate(call, OP_PAUSE, "paused");
}

void method_resume(struct rpc_call *call)
{
    operate(call, OP_RESUME, "resumed");
}

/* ---- start --------------------------------------------------------------------------------- */

static void add_steps(struct http_request *request, const struct box *box)
{
    json_t *status = json_loads(box->status ? box->status : "{}", 0, NULL);
    json_t *steps = json_object_get(status, "start_steps_us");
    http_add_timing(request, "launcher", box->launched_us - box->began_us);
    for (void *at = json_object_iter(steps); at; at = json_object_iter_next(steps, at))
        http_add_timing(request, json_object_iter_key(at),
                        (uint64_t)json_integer_value(json_object_iter_value(at)));
    json_decref(status);
}

static void on_started(struct box_waiter *waiter, const struct error *err)
{
    struct life *life = waiter->context;
    struct http_request *request = life->call ? life->call->request : NULL;
    if (!err && request && http_header(request, "X-Timing"))
        add_steps(request, life->box);
    finish(life, err);
}

static void await_start(struct rpc_call *call, struct box *box)
{
    struct life *life = life_new(call, "started");
    life->box = box;
    life->waiter.done = on_started;
    box_await_start(box, &life->waiter);
}

static void start_new(struct rpc_call *call, const json_t *settings)
{
    struct error err;
    struct sandbox_config config;
    bool is_copy = json_object_get(settings, "snapshot") != NULL;
    if (!is_copy && !json_is_string(json_object_get(settings, "image"))) {
        error_set(&err, ERROR_INVALID, "which image is sandbox %s to have?", call->name);
        error_hint(&err, "give \"config\": {\"image\": \"microsandbox/python\"}");
        rpc_fail(call, &err);
        return;
    }
    sandbox_config_init(&config);
    int result = start_config_fill(&config, call, settings, &err);
    struct box *box = result == 0 ? boxes_start(&call->server->boxes, &config, NULL, &err) : NULL;
    sandbox_config_free(&config);
    if (box)
        await_start(call, box);
    else
        rpc_fail(call, &err);
}

/* "python", "microsandbox/python:latest": the same to whoever asks. */
static bool is_same_image(const char *wanted, const char *running)
{
    struct error ignored;
    cleanup_free char *first = NULL, *second = NULL;
    return reference_normalize(wanted, &first, &ignored) == 0 &&
           reference_normalize(running, &second, &ignored) == 0 && strcmp(first, second) == 0;
}

/* Starting what runs already is no error, unless something else was meant. */
static void on_described(struct client_call *operation, const struct outcome *outcome)
{
    struct life *life = operation->context;
    json_t *status = outcome->status ? json_loads(outcome->status, 0, NULL) : NULL;
    const char *running = json_string_value(json_object_get(status, "image"));
    struct error err = outcome->error;
    if (err.code == ERROR_NONE && life->call && life->image && running &&
        !is_same_image(life->image, running)) {
        error_set(&err, ERROR_EXISTS, "the sandbox %s runs already, with the image %s",
                  life->call->name, running);
        error_hint(&err, "stop it first, or use another name");
    }
    finish(life, err.code == ERROR_NONE ? NULL : &err);
    json_decref(status);
}

static void join_running(struct rpc_call *call, struct box *box, const char *image)
{
    static const struct call_handlers handlers = {.end = on_described};
    struct life *life = life_new(call, "started");
    life->image = image;
    call_start(&box->client, &life->operation, OP_STATUS, NULL, &handlers, life);
}

void method_start(struct rpc_call *call)
{
    struct error err;
    struct boxes *boxes = &call->server->boxes;
    const json_t *settings = json_object_get(call->params, "config");
    const char *image = json_string_value(json_object_get(settings, "image"));
    struct box *box = boxes_find_starting(boxes, call->namespace, call->name);
    if (box) {
        await_start(call, box);
        return;
    }
    box = boxes_find(boxes, call->namespace, call->name, &err);
    if (box)
        join_running(call, box, image);
    else if (err.code == ERROR_NOT_FOUND)
        start_new(call, settings);
    else
        rpc_fail(call, &err);
}
