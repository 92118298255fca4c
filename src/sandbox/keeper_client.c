/* The keeper's clients: their connections, and the operations it answers itself. */
#include "base/mem.h"
#include "proto/outcome.h"
#include "sandbox/keeper_internal.h"
#include "sandbox/launch.h"

void client_answer(struct client *client, uint32_t stream, const struct outcome *outcome)
{
    cleanup_buf struct buf frames = {0};
    outcome_append(&frames, stream, outcome);
    link_send_raw(&client->link, &frames);
}

void client_fail(struct client *client, uint32_t stream, const struct error *err)
{
    struct outcome outcome = outcome_error(err);
    client_answer(client, stream, &outcome);
}

static void answer_status(struct client *client, uint32_t stream)
{
    cleanup_free char *status = keeper_status(client->keeper);
    client_answer(client, stream, &(struct outcome){.status = status});
}

static struct client *find_owner(const struct keeper *keeper)
{
    struct client *owner = keeper->clients;
    while (owner && !owner->is_owner)
        owner = owner->next;
    return owner;
}

void client_answer_owner(struct keeper *keeper, uint32_t stream, const struct error *failure)
{
    struct client *owner = find_owner(keeper);
    if (owner && failure)
        client_fail(owner, stream, failure);
    else if (owner)
        answer_status(owner, stream);
}

static void set_paused(struct client *client, uint32_t stream, bool paused)
{
    struct keeper *keeper = client->keeper;
    struct error err;
    if (keeper->saving.requests) {
        error_set(&err, ERROR_BUSY, "the sandbox is being copied");
        error_hint(&err, "try again in a moment");
        client_fail(client, stream, &err);
        return;
    }
    int result = keeper->paused == paused ? 0
                 : paused                 ? machine_pause(keeper->machine, &err)
                                          : machine_resume(keeper->machine, &err);
    if (result < 0) {
        client_fail(client, stream, &err);
        return;
    }
    keeper->paused = paused;
    if (!paused)
        save_set_clock(keeper);
    client_answer(client, stream, &(struct outcome){0});
}

static void open_operation(struct client *client, const struct frame *frame)
{
    struct error err;
    switch (frame->detail) {
    case OP_STATUS:
        answer_status(client, frame->stream);
        return;
    case OP_STOP:
        finish_stop(client, frame->stream);
        return;
    case OP_PAUSE:
    case OP_RESUME:
        set_paused(client, frame->stream, frame->detail == OP_PAUSE);
        return;
    case OP_SAVE:
        save_open(client, frame);
        return;
    case OP_EXEC:
    case OP_RUN:
    case OP_FILE_READ ... OP_CONNECT:
    case OP_METRICS:
        if (!client->keeper->paused) {
            route_open(client, frame);
            return;
        }
        error_set(&err, ERROR_UNAVAILABLE, "the sandbox is paused");
        error_hint(&err, "resume it first");
        break;
    default:
        error_set(&err, ERROR_INVALID, "there is no operation %u for clients", frame->detail);
    }
    client_fail(client, frame->stream, &err);
}

/* Watching a sandbox is not using it: whoever asks every few seconds must not keep it alive. */
static bool is_use(const struct frame *frame)
{
    return frame->type != FRAME_OPEN || frame->detail != OP_STATUS;
}

static void on_frame(struct link *link, const struct frame *frame)
{
    struct client *client = link->owner;
    if (client->keeper->ending)
        return;
    if (is_use(frame))
        keeper_touch(client->keeper);
    if (frame->type == FRAME_OPEN)
        open_operation(client, frame);
    else if (frame->type == FRAME_DATA || frame->type == FRAME_EOF || frame->type == FRAME_CREDIT ||
             frame->type == FRAME_CONTROL)
        route_forward(client, frame);
}

static void on_lost(struct link *link, const struct error *reason)
{
    (void)reason;
    struct client *client = link->owner;
    struct keeper *keeper = client->keeper;
    link_close(link);
    route_abandon(keeper, client);
    save_abandon(keeper, client);
    finish_abandon(keeper, client);
    if (client->is_owner && keeper->config.attached)
        finish_open(keeper, ERROR_CANCELLED, "whoever started it went away");
}

static void on_closed(struct link *link)
{
    struct client *client = link->owner;
    struct client **at = &client->keeper->clients;
    while (*at != client)
        at = &(*at)->next;
    *at = client->next;
    free(client);
}

static const struct link_handlers handlers = {
    .frame = on_frame,
    .lost = on_lost,
    .closed = on_closed,
};

static struct client *add(struct keeper *keeper, int fd, bool is_owner)
{
    struct error err;
    struct client *client = xcalloc(1, sizeof *client);
    client->keeper = keeper;
    client->is_owner = is_owner;
    client->next = keeper->clients;
    keeper->clients = client;
    if (link_open(&client->link, &keeper->loop, fd, &handlers, client, &err) < 0)
        on_lost(&client->link, &err);
    return client;
}

void client_add(struct keeper *keeper, int fd)
{
    add(keeper, fd, false);
}

static bool is_of_call(const struct frame *frame)
{
    bool is_call = frame->type != FRAME_OPEN || frame->detail == OP_RUN || frame->detail == OP_EXEC;
    return frame->stream == LAUNCH_CALL_STREAM && is_call;
}

void client_add_owner(struct keeper *keeper, struct buf *early)
{
    struct error ignored;
    struct frame frame;
    int size;
    struct client *owner = add(keeper, keeper->owner, true);
    while ((size = frame_decode(early, &frame, &ignored)) > 0 && is_of_call(&frame)) {
        on_frame(&owner->link, &frame);
        buf_consume(early, (size_t)size);
    }
}

void client_preload_owner(struct keeper *keeper, const struct buf *early)
{
    struct client *owner = find_owner(keeper);
    if (owner)
        link_preload(&owner->link, early);
}
