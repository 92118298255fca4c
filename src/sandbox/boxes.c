#include "sandbox/boxes.h"

#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/engine.h"
#include "sandbox/launch.h"
#include "sandbox/state.h"

/* A keeper that says nothing for so long while it has calls is asked, and given up after as long.
 */
#define PATIENCE_MS 10000
/* At once; each is a process of the launcher that works hard. */
#define STARTING_MAX 64

static struct box *find_known(const struct boxes *boxes, const char *namespace, const char *name)
{
    struct box *box = boxes->first;
    while (box && (strcmp(box->name, name) != 0 || strcmp(box->namespace, namespace) != 0))
        box = box->next;
    return box;
}

static struct box *box_new(struct boxes *boxes, const char *namespace, const char *name)
{
    struct box *box = xcalloc(1, sizeof *box);
    box->boxes = boxes;
    box->namespace = xstrdup(namespace);
    box->name = xstrdup(name);
    uv_timer_init(boxes->loop, &box->patience);
    box->patience.data = box;
    box->next = boxes->first;
    boxes->first = box;
    return box;
}

static void tell(struct box_waiter **list, const struct error *err)
{
    struct box_waiter *next, *at = steal_pointer(list);
    for (; at; at = next) {
        next = at->next;
        at->done(at, err);
    }
}

static void on_timer_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void box_free(struct box *box)
{
    struct box **at = &box->boxes->first;
    while (*at != box)
        at = &(*at)->next;
    *at = box->next;
    struct box_waiter *for_end = steal_pointer(&box->for_end);
    free(box->namespace);
    free(box->name);
    launch_free(&box->launch);
    uv_close((uv_handle_t *)&box->patience, on_timer_closed);
    tell(&for_end, NULL);
}

static void note_start(const struct box *box, const struct error *err)
{
    uint64_t duration_us = clock_monotonic_us() - box->began_us;
    const struct log_field fields[] = {
        {.name = "namespace", .text = box->namespace},
        {.name = "sandbox", .text = box->name},
        {.name = "duration_us", .number = (int64_t)duration_us},
        {.name = err ? "error" : NULL, .text = err ? error_code_name(err->code) : ""},
        {.name = err ? "reason" : NULL, .text = err ? err->message : ""},
    };
    if (box->boxes->started)
        box->boxes->started(box, duration_us, err);
    log_event(err ? LOG_LEVEL_WARN : LOG_LEVEL_INFO,
              err ? "a sandbox could not be started" : "a sandbox was started", fields,
              sizeof fields / sizeof fields[0]);
}

static void fail_start(struct box *box, const struct error *err)
{
    note_start(box, err);
    tell(&box->for_start, err);
    box_free(box);
}

static void on_closed(struct sandbox_client *client)
{
    struct error err;
    struct box *box = client->context;
    if (!box->starts_anew) {
        box_free(box);
        return;
    }
    box->starts_anew = false;
    box->from_pool = false;
    if (launcher_start(box->boxes->launcher, &box->launch, &err) < 0)
        fail_start(box, &err);
}

static int open_client(struct box *box, int fd, struct error *err)
{
    int result = client_open(&box->client, box->boxes->loop, fd, err);
    if (result < 0)
        return result;
    box->client.closed = on_closed;
    box->client.context = box;
    return 0;
}

static void on_pong(struct client_call *ping, const struct outcome *outcome)
{
    (void)outcome;
    struct box *box = ping->context;
    box->is_pinging = false;
}

static void give_up(struct box *box)
{
    struct error err;
    error_set(&err, ERROR_UNAVAILABLE, "the keeper of sandbox %s does not answer", box->name);
    error_hint(&err, "sandbox.stop ends it");
    log_warn("%s", err.message);
    client_abandon(&box->client, &err);
}

static void on_patience(uv_timer_t *timer)
{
    static const struct call_handlers handlers = {.end = on_pong};
    struct box *box = timer->data;
    if (!box->client.calls || box->client.link.is_closing)
        return;
    bool is_silent = box->client.link.received == box->heard;
    if (is_silent && box->is_pinging) {
        give_up(box);
        return;
    }
    if (is_silent) {
        box->is_pinging = true;
        call_start(&box->client, &box->ping, OP_STATUS, NULL, &handlers, box);
    }
    box->heard = box->client.link.received;
    uv_timer_start(timer, on_patience, PATIENCE_MS, 0);
}

/* It is about to have a call. */
static struct box *watched(struct box *box)
{
    if (!uv_is_active((uv_handle_t *)&box->patience)) {
        box->heard = box->client.link.received;
        uv_timer_start(&box->patience, on_patience, PATIENCE_MS, 0);
    }
    return box;
}

struct box *boxes_find(struct boxes *boxes, const char *namespace, const char *name,
                       struct error *err)
{
    struct box *box = find_known(boxes, namespace, name);
    if (box && box->is_ready && !box->client.link.is_closing)
        return watched(box);
    if (box) {
        error_set(err, ERROR_BUSY, "the sandbox %s is %s", name,
                  box->is_ready ? "ending" : "still starting");
        error_hint(err, "try again in a moment");
        return NULL;
    }
    int fd = state_connect(namespace, name, err);
    if (fd < 0) {
        if (err->code == ERROR_NOT_FOUND) {
            error_set(err, ERROR_NOT_FOUND, "there is no running sandbox %s in namespace %s", name,
                      namespace);
            error_hint(err, "sandbox.start starts one, sandbox.list lists them");
        }
        return NULL;
    }
    box = box_new(boxes, namespace, name);
    box->is_ready = true;
    if (open_client(box, fd, err) == 0)
        return watched(box);
    box_free(box);
    return NULL;
}

struct box *boxes_find_starting(struct boxes *boxes, const char *namespace, const char *name)
{
    struct box *box = find_known(boxes, namespace, name);
    return box && !box->is_ready ? box : NULL;
}

static void on_unwanted_end(struct client_call *call, const struct outcome *outcome)
{
    (void)call, (void)outcome;
}

/* Whoever wanted it has left. */
static void cancel_call(struct box *box)
{
    static const struct call_handlers handlers = {.end = on_unwanted_end};
    call_join_first(&box->client, &box->unwanted, &handlers, box);
    call_cancel(&box->unwanted);
}

static void on_started(struct client_call *call, const struct outcome *outcome)
{
    struct box *box = call->context;
    const struct error *err = outcome->error.code != ERROR_NONE ? &outcome->error : NULL;
    box->starts_anew = err && box->from_pool && err->code != ERROR_EXISTS;
    if (box->starts_anew) {
        log_info("what was made ahead for %s/%s failed: %s", box->namespace, box->name,
                 err->message);
        client_close(&box->client);
        return;
    }
    box->is_ready = !err;
    box->status = outcome->status;
    box->client.has_call = !err && buf_length(&box->launch.call) > 0;
    /* Whoever waits comes before the log. */
    tell(&box->for_start, err);
    if (box->client.has_call)
        cancel_call(box);
    note_start(box, err);
    if (box->from_pool && box->uses_warmth)
        launcher_renew_warmth(box->boxes->launcher, &box->launch);
    launch_free(&box->launch);
    box->status = NULL;
    if (err)
        client_close(&box->client);
}

static int join_start(struct box *box, int fd, struct error *err)
{
    static const struct call_handlers handlers = {.end = on_started};
    box->launched_us = clock_monotonic_us();
    if (open_client(box, fd, err) < 0)
        return -1;
    call_join(&box->client, &box->starting, LAUNCH_STREAM, &handlers, box);
    return 0;
}

static void on_launched(struct launch *launch, int fd, const struct error *failure)
{
    struct box *box = launch->context;
    struct error err = *failure;
    if (fd < 0 || join_start(box, fd, &err) < 0)
        fail_start(box, &err);
}

static int check_room(const struct boxes *boxes, struct error *err)
{
    size_t starting = 0;
    for (const struct box *box = boxes->first; box; box = box->next)
        starting += !box->is_ready;
    if (starting < STARTING_MAX)
        return 0;
    error_set(err, ERROR_BUSY, "%zu sandboxes are being started already", starting);
    return error_hint(err, "try again in a moment");
}

/* Copies and what keeps its files have machines of their own; an image that has to be made first is
 * the launcher's. */
static bool may_be_ahead(const struct boxes *boxes, struct sandbox_config *config)
{
    struct error ignored;
    return boxes->pools && !sandbox_config_is_copy(config) && !config->keep &&
           launch_find_image(config, &ignored) == 0;
}

static int start(struct box *box, struct sandbox_config *config, struct error *err)
{
    struct boxes *boxes = box->boxes;
    bool tries_pool = may_be_ahead(boxes, config);
    int fd = -1;
    box->launch.settings = launch_settings(config);
    if (strlen(box->launch.settings) > LAUNCH_SETTINGS_MAX)
        return error_set(err, ERROR_LIMIT, "the sandbox's settings are too long");
    if (tries_pool)
        fd = pools_take(boxes->pools, config, box->launch.settings, &box->launch.call);
    if (fd < 0)
        return launcher_start(boxes->launcher, &box->launch, err);
    box->from_pool = true;
    box->uses_warmth = engine_find(config->engine)->keep_warm != NULL;
    return join_start(box, fd, err);
}

struct box *boxes_start(struct boxes *boxes, struct sandbox_config *config, const struct buf *call,
                        struct error *err)
{
    if (check_room(boxes, err) < 0)
        return NULL;
    config->attached = config->attached || boxes->attached;
    struct box *box = box_new(boxes, config->namespace, config->name);
    box->began_us = clock_monotonic_us();
    if (call)
        buf_append(&box->launch.call, buf_data(call), buf_length(call));
    box->launch.ended = on_launched;
    box->launch.context = box;
    if (start(box, config, err) == 0)
        return box;
    box_free(box);
    return NULL;
}

static void add_waiter(struct box_waiter **list, struct box_waiter *waiter)
{
    waiter->next = *list;
    *list = waiter;
}

void box_await_start(struct box *box, struct box_waiter *waiter)
{
    add_waiter(&box->for_start, waiter);
}

void box_await_end(struct box *box, struct box_waiter *waiter)
{
    add_waiter(&box->for_end, waiter);
}
