/* sandbox.start, stop, pause, resume. */
#include <signal.h>
#include <string.h>
#include <sys/socket.h>

#include "base/log.h"
#include "base/mem.h"
#include "image/reference.h"
#include "sandbox/state.h"
#include "server/rpc.h"

#define STOP_MS 10000

/* A call that waits for a sandbox, or for one operation of it without output. */
struct life {
    struct rpc_call *call; /* NULL: the client has left */
    struct box *box;
    struct box_waiter waiter;
    struct client_call operation;
    uv_timer_t patience; /* of a stop; its data is NULL otherwise */
    const char *image;   /* of a start: what was asked for */
    const char *done;    /* "started", "stopped", … */
};

static void life_left(struct rpc_call *call)
{
    struct life *life = call->context;
    life->call = NULL;
}

static struct life *life_new(struct rpc_call *call, struct box *box, const char *done)
{
    struct life *life = xcalloc(1, sizeof *life);
    *life = (struct life){.call = call, .box = box, .done = done, .waiter.context = life};
    call->context = life;
    call->left = life_left;
    return life;
}

static void on_timer_closed(uv_handle_t *timer)
{
    free(timer->data);
}

static void life_free(struct life *life)
{
    if (life->patience.data)
        uv_close((uv_handle_t *)&life->patience, on_timer_closed);
    else
        free(life);
}

static void finish(struct life *life, const struct error *err)
{
    struct rpc_call *call = life->call;
    if (call && err)
        rpc_fail_as(call, err->code == ERROR_EXISTS ? RPC_EXISTS : RPC_INTERNAL, err);
    else if (call)
        rpc_succeed(call, json_sprintf("Sandbox %s %s successfully", call->name, life->done));
    life_free(life);
}

static void on_waited(struct box_waiter *waiter, const struct error *err)
{
    finish(waiter->context, err);
}

static void ignore_data(struct client_call *call, enum channel channel, const uint8_t *bytes,
                        size_t length)
{
    (void)channel, (void)bytes;
    call_consumed(call, length);
}

/* ---- stop, pause, resume ------------------------------------------------------------------- */

static void on_done(struct client_call *operation, const struct outcome *outcome)
{
    struct life *life = operation->context;
    finish(life, outcome->error.code == ERROR_NONE ? NULL : &outcome->error);
}

/* The name is free once the keeper has closed its connection, which follows. */
static void on_stopped(struct client_call *operation, const struct outcome *outcome)
{
    (void)outcome;
    struct life *life = operation->context;
    life->waiter.done = on_waited;
    box_await_end(life->box, &life->waiter);
}

/* A keeper that does not answer is killed, and its machine dies with it. Asked on a connection of
 * its own: the one that came from the launcher does not tell who the keeper is. */
static void on_impatient(uv_timer_t *timer)
{
    const struct life *life = timer->data;
    struct error ignored;
    struct ucred peer = {0};
    socklen_t size = sizeof peer;
    cleanup_fd int fd = state_connect(life->box->namespace, life->box->name, &ignored);
    if (fd >= 0 && getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.pid > 0) {
        log_warn("the keeper of %s does not answer and is killed", life->box->name);
        kill(peer.pid, SIGKILL);
    }
}

static void operate(struct rpc_call *call, enum operation operation, const char *done)
{
    static const struct call_handlers simple = {.data = ignore_data, .end = on_done};
    static const struct call_handlers stopping = {.data = ignore_data, .end = on_stopped};
    struct box *box = rpc_box(call);
    if (!box)
        return;
    struct life *life = life_new(call, box, done);
    call_start(&box->client, &life->operation, operation, NULL,
               operation == OP_STOP ? &stopping : &simple, life);
    if (operation != OP_STOP)
        return;
    uv_timer_init(box->boxes->loop, &life->patience);
    life->patience.data = life;
    uv_timer_start(&life->patience, on_impatient, STOP_MS, 0);
}

void method_stop(struct rpc_call *call)
{
    operate(call, OP_STOP, "stopped");
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

/* An API client may not decide what of the host its sandbox gets. */
static int check_host_wishes(const json_t *settings, char *const *ports, char *const *envs,
                             struct error *err)
{
    if (json_array_size(json_object_get(settings, "volumes")) > 0) {
        error_set(err, ERROR_DENIED, "this server shares no folders of its host");
        return error_hint(err, "use sandbox.file.write, or msb exe --volume on the host");
    }
    for (size_t i = 0; ports[i]; i++) {
        const char *colon = strchr(ports[i], ':');
        if (!colon || strchr(colon + 1, ':'))
            return error_set(err, ERROR_INVALID, "a port must be HOST:GUEST, such as 8080:80");
    }
    for (size_t i = 0; envs[i]; i++) {
        if (!strchr(envs[i], '='))
            return error_set(err, ERROR_INVALID, "an entry of \"envs\" must be NAME=value");
    }
    return 0;
}

static int fill_lists(struct sandbox_config *config, const json_t *settings, struct error *err)
{
    cleanup_free char **ports = NULL, **envs = NULL;
    if (rpc_texts(settings, "ports", &ports, err) < 0 ||
        rpc_texts(settings, "envs", &envs, err) < 0)
        return -1;
    int result = check_host_wishes(settings, ports, envs, err);
    for (size_t i = 0; result == 0 && envs[i]; i++)
        result = sandbox_config_add_env(config, envs[i], err);
    for (size_t i = 0; result == 0 && ports[i]; i++)
        result = sandbox_config_add_port(config, ports[i], err);
    return result;
}

static int fill_config(struct sandbox_config *config, const struct rpc_call *call,
                       const json_t *settings, struct error *err)
{
    uint64_t memory = config->memory_mb, cpus = config->cpus;
    const char *workdir = json_string_value(json_object_get(settings, "workdir"));
    free(config->namespace);
    config->namespace = xstrdup(call->namespace);
    config->name = xstrdup(call->name);
    config->image = xstrdup(json_string_value(json_object_get(settings, "image")));
    /* The launcher finds these out. */
    config->image_path = xstrdup("");
    config->image_digest = xstrdup("");
    config->workdir = workdir ? xstrdup(workdir) : NULL;
    sandbox_config_choose_engine(config, json_string_value(json_object_get(settings, "engine")));
    if (rpc_member_number(settings, "memory", UINT32_MAX, &memory, err) < 0 ||
        rpc_member_number(settings, "cpus", UINT32_MAX, &cpus, err) < 0)
        return -1;
    config->memory_mb = (unsigned)memory;
    config->cpus = (unsigned)cpus;
    int result = fill_lists(config, settings, err);
    return result < 0 ? result : sandbox_config_check(config, err);
}

static void await_start(struct rpc_call *call, struct box *box)
{
    struct life *life = life_new(call, box, "started");
    life->waiter.done = on_waited;
    box_await_start(box, &life->waiter);
}

static void start_new(struct rpc_call *call, const json_t *settings)
{
    struct error err;
    struct sandbox_config config;
    if (!json_is_string(json_object_get(settings, "image"))) {
        error_set(&err, ERROR_INVALID, "which image is sandbox %s to have?", call->name);
        error_hint(&err, "give \"config\": {\"image\": \"microsandbox/python\"}");
        rpc_fail(call, &err);
        return;
    }
    sandbox_config_init(&config);
    int result = fill_config(&config, call, settings, &err);
    struct box *box = result == 0 ? boxes_start(&call->server->boxes, &config, &err) : NULL;
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
    static const struct call_handlers handlers = {.data = ignore_data, .end = on_described};
    struct life *life = life_new(call, box, "started");
    life->image = image;
    call_start(&box->client, &life->operation, OP_STATUS, NULL, &handlers, life);
}

void method_start(struct rpc_call *call)
{
    struct error err;
    struct boxes *boxes = &call->server->boxes;
    const json_t *settings = json_object_get(call->params, "config");
    if (settings && !json_is_object(settings) && !json_is_null(settings)) {
        error_set(&err, ERROR_INVALID, "\"config\" must be an object");
        rpc_fail(call, &err);
        return;
    }
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
