/* sandbox.fork: a copy of a running sandbox, in its namespace. */
#include "base/mem.h"
#include "engine/engine.h"
#include "server/rpc.h"

struct forking {
    struct rpc_call *call; /* NULL: the client has left */
    struct box *copy;
    struct box_waiter waiter;
    struct client_call asking;
};

static void on_left(struct rpc_call *call)
{
    struct forking *forking = call->context;
    forking->call = NULL;
}

static void fail(struct forking *forking, const struct error *err)
{
    if (forking->call)
        rpc_fail_as(forking->call, err->code == ERROR_EXISTS ? RPC_EXISTS : RPC_INTERNAL, err);
    free(forking);
}

/* Whoever expects the variables has to know whether they came along. */
static void on_described(struct client_call *asking, const struct outcome *outcome)
{
    struct forking *forking = asking->context;
    if (outcome->error.code != ERROR_NONE) {
        fail(forking, &outcome->error);
        return;
    }
    json_t *status = outcome->status ? json_loads(outcome->status, 0, NULL) : NULL;
    const char *name = json_string_value(json_object_get(status, "engine"));
    const struct engine *engine = name ? engine_find(name) : NULL;
    if (forking->call)
        rpc_succeed(forking->call,
                    json_pack("{s:s, s:s, s:b}", "sandbox", forking->copy->name, "namespace",
                              forking->copy->namespace, "memory", engine && engine->saves_memory));
    json_decref(status);
    free(forking);
}

static void on_started(struct box_waiter *waiter, const struct error *err)
{
    static const struct call_handlers handlers = {.end = on_described};
    struct forking *forking = waiter->context;
    if (err)
        fail(forking, err);
    else
        call_start(&forking->copy->client, &forking->asking, OP_STATUS, NULL, &handlers, forking);
}

static struct box *start_copy(const struct rpc_call *call, const char *name, struct error *err)
{
    struct sandbox_config config;
    sandbox_config_init(&config);
    free(config.namespace);
    config.namespace = xstrdup(call->namespace);
    config.name = xstrdup(name);
    config.fork_of = xstrdup(call->name);
    /* Its keeper finds these out. */
    config.image_path = xstrdup("");
    config.image_digest = xstrdup("");
    struct box *box = boxes_start(&call->server->boxes, &config, NULL, err);
    sandbox_config_free(&config);
    return box;
}

/* The name must be good and free. */
static int take_name(const struct rpc_call *call, const char **name, struct error *err)
{
    struct boxes *boxes = &call->server->boxes;
    int result = rpc_need_text(call, "name", name, err);
    if (result == 0)
        result = sandbox_check_name("sandbox name", *name, err);
    if (result < 0)
        return result;
    if (!boxes_find_starting(boxes, call->namespace, *name) &&
        !boxes_find(boxes, call->namespace, *name, err) && err->code == ERROR_NOT_FOUND)
        return 0;
    error_set(err, ERROR_EXISTS, "the sandbox %s exists already", *name);
    return error_hint(err, "stop it first, or use another name");
}

void method_fork(struct rpc_call *call)
{
    struct error err;
    const char *name;
    if (!rpc_box(call))
        return;
    struct box *copy = NULL;
    if (take_name(call, &name, &err) == 0)
        copy = start_copy(call, name, &err);
    if (!copy) {
        if (err.code == ERROR_EXISTS)
            rpc_fail_as(call, RPC_EXISTS, &err);
        else
            rpc_fail(call, &err);
        return;
    }
    struct forking *forking = xcalloc(1, sizeof *forking);
    *forking = (struct forking){.call = call, .copy = copy};
    forking->waiter = (struct box_waiter){.done = on_started, .context = forking};
    call->context = forking;
    call->left = on_left;
    box_await_start(copy, &forking->waiter);
}
