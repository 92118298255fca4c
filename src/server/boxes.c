#include "server/boxes.h"

#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "sandbox/launch.h"
#include "sandbox/state.h"

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
    free(box);
    tell(&for_end, NULL);
}

static void fail_start(struct box *box, const struct error *err)
{
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
    if (launcher_start_anew(box->boxes->launcher, &box->launch, &err) < 0)
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

struct box *boxes_find(struct boxes *boxes, const char *namespace, const char *name,
                       struct error *err)
{
    struct box *box = find_known(boxes, namespace, name);
    if (box && box->is_ready && !box->client.link.is_closing)
        return box;
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
        return box;
    box_free(box);
    return NULL;
}

struct box *boxes_find_starting(struct boxes *boxes, const char *namespace, const char *name)
{
    struct box *box = find_known(boxes, namespace, name);
    return box && !box->is_ready ? box : NULL;
}

static void on_started(struct client_call *call, const struct outcome *outcome)
{
    struct box *box = call->context;
    bool failed = outcome->error.code != ERROR_NONE;
    box->starts_anew = failed && box->launch.from_pool && outcome->error.code != ERROR_EXISTS;
    if (box->starts_anew) {
        log_info("what was made ahead for %s/%s failed: %s", box->namespace, box->name,
                 outcome->error.message);
        client_close(&box->client);
        return;
    }
    box->is_ready = !failed;
    tell(&box->for_start, failed ? &outcome->error : NULL);
    if (failed)
        client_close(&box->client);
    else
        log_info("sandbox %s/%s started", box->namespace, box->name);
}

static void on_start_data(struct client_call *call, enum channel channel, const uint8_t *bytes,
                          size_t length)
{
    (void)channel, (void)bytes;
    call_consumed(call, length);
}

static void on_launched(struct launch *launch, int fd, const struct error *failure)
{
    static const struct call_handlers handlers = {.data = on_start_data, .end = on_started};
    struct box *box = launch->context;
    struct error err = *failure;
    if (fd < 0 || open_client(box, fd, &err) < 0) {
        fail_start(box, &err);
        return;
    }
    call_join(&box->client, &box->starting, LAUNCH_STREAM, &handlers, box);
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

struct box *boxes_start(struct boxes *boxes, const struct sandbox_config *config, struct error *err)
{
    if (check_room(boxes, err) < 0)
        return NULL;
    struct box *box = box_new(boxes, config->namespace, config->name);
    box->launch.ended = on_launched;
    box->launch.context = box;
    if (launcher_start(boxes->launcher, &box->launch, config, err) == 0)
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
