/*
 * Writing a sandbox down while it runs. The agent is told to hold still at the end of a frame, and
 * what clients send waits here; then a thread has the machine stop, be written down and go on.
 */
#include <signal.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "proto/fields.h"
#include "sandbox/keeper_internal.h"

#define HOLD_MS 10000

static void on_ignored(struct route *route, const struct frame *frame)
{
    (void)route, (void)frame;
}

static void on_ignored_lost(struct route *route, const struct error *reason)
{
    (void)route, (void)reason;
}

static const struct route_user ignoring = {.frame = on_ignored, .lost = on_ignored_lost};

void save_set_clock(struct keeper *keeper)
{
    cleanup_buf struct buf fields = {0};
    fields_add_number(&fields, TAG_REALTIME_US, clock_realtime_us());
    route_start(keeper, OP_CLOCK, &fields, &ignoring, keeper);
}

/* Says how it went, and lets clients and agent talk again. */
static void finish(struct keeper *keeper, const struct error *err)
{
    struct saving *saving = &keeper->saving;
    struct client *client = saving->client;
    struct route *hold = steal_pointer(&saving->hold);
    uv_timer_stop(&saving->patience);
    free(steal_pointer(&saving->folder));
    saving->client = NULL;
    saving->is_writing = false;
    link_release(&keeper->agent);
    hold->user = &ignoring;
    route_send_eof(keeper, hold);
    keeper_touch(keeper);
    if (client && err) {
        client_fail(client, saving->stream, err);
    } else if (client) {
        cleanup_free char *status = keeper_status(keeper);
        client_answer(client, saving->stream, &(struct outcome){.status = status});
    }
}

/* The settings go with the machine, for whoever starts a copy. */
static int write_settings(const struct keeper *keeper, struct error *err)
{
    json_t *json = sandbox_config_to_json(&keeper->config);
    cleanup_free char *text = json_dumps(json, JSON_INDENT(2));
    json_decref(json);
    cleanup_free char *path = xasprintf("%s/sandbox.json", keeper->saving.folder);
    return file_write_atomic(path, text, strlen(text), 0600, err);
}

static void write_down(void *context)
{
    struct keeper *keeper = context;
    struct saving *saving = &keeper->saving;
    saving->result = machine_save(keeper->machine, saving->folder, &saving->err);
    uv_async_send(&saving->written);
}

static void on_written(uv_async_t *async)
{
    struct keeper *keeper = async->data;
    struct saving *saving = &keeper->saving;
    uv_thread_join(&saving->writing);
    finish(keeper, saving->result < 0 ? &saving->err : NULL);
    save_set_clock(keeper);
}

/* ---- the agent holds ----------------------------------------------------------------------- */

static void on_hold_frame(struct route *route, const struct frame *frame)
{
    struct keeper *keeper = route->owner;
    struct saving *saving = &keeper->saving;
    struct error err;
    if (saving->is_writing)
        return;
    uv_timer_stop(&saving->patience);
    int result = 0;
    if (frame->type != FRAME_EVENT)
        result = error_set(&err, ERROR_PROTOCOL, "the sandbox cannot be held still");
    if (result == 0)
        result = write_settings(keeper, &err);
    if (result == 0 && (result = uv_thread_create(&saving->writing, write_down, keeper)) < 0)
        error_errno(&err, -result, "cannot start a thread");
    if (result < 0)
        finish(keeper, &err);
    else
        saving->is_writing = true;
}

static void on_hold_lost(struct route *route, const struct error *reason)
{
    finish(route->owner, reason);
}

static void on_impatient(uv_timer_t *timer)
{
    struct keeper *keeper = timer->data;
    struct error err;
    error_set(&err, ERROR_TIMEOUT, "the sandbox does not hold still to be copied");
    error_hint(&err, "it is too busy: try again");
    finish(keeper, &err);
}

static int take_path(void *owner, const struct field *field, struct error *err)
{
    return field->tag == TAG_PATH ? field_replace_text(field, owner, err) : 0;
}

static int check(const struct keeper *keeper, struct error *err)
{
    if (keeper->paused) {
        error_set(err, ERROR_UNAVAILABLE, "the sandbox is paused");
        return error_hint(err, "resume it first");
    }
    if (keeper->saving.folder) {
        error_set(err, ERROR_BUSY, "the sandbox is being copied already");
        return error_hint(err, "try again in a moment");
    }
    return 0;
}

void save_open(struct client *client, const struct frame *frame)
{
    static const struct route_user holding = {.frame = on_hold_frame, .lost = on_hold_lost};
    struct keeper *keeper = client->keeper;
    struct saving *saving = &keeper->saving;
    struct error err;
    cleanup_free char *folder = NULL;
    int result = check(keeper, &err);
    if (result == 0)
        result = fields_each(frame->payload, frame->length, take_path, &folder, &err);
    if (result == 0 && (!folder || folder[0] != '/'))
        result = error_set(&err, ERROR_INVALID, "where is the sandbox to be saved?");
    if (result == 0) {
        saving->hold = route_start(keeper, OP_HOLD, &(struct buf){0}, &holding, keeper);
        if (!saving->hold)
            result = error_set(&err, ERROR_LIMIT, "too many operations are under way");
    }
    if (result < 0) {
        client_fail(client, frame->stream, &err);
        return;
    }
    saving->client = client;
    saving->stream = frame->stream;
    saving->folder = steal_pointer(&folder);
    link_hold(&keeper->agent);
    uv_timer_start(&saving->patience, on_impatient, HOLD_MS, 0);
}

void save_abandon(struct keeper *keeper, const struct client *client)
{
    if (keeper->saving.client == client)
        keeper->saving.client = NULL;
}

/* The process stays a zombie until the thread is done with its number. */
void save_break_off(struct keeper *keeper)
{
    struct saving *saving = &keeper->saving;
    if (!saving->is_writing)
        return;
    kill(machine_process(keeper->machine), SIGKILL);
    uv_thread_join(&saving->writing);
    struct error err;
    error_set(&err, ERROR_UNAVAILABLE, "the sandbox ended while it was copied");
    finish(keeper, &err);
}

void save_init(struct keeper *keeper)
{
    struct saving *saving = &keeper->saving;
    uv_timer_init(&keeper->loop, &saving->patience);
    uv_async_init(&keeper->loop, &saving->written, on_written);
    saving->patience.data = saving->written.data = keeper;
}
