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
#define REQUESTS_MAX 64

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

/* Says how it went, and forgets the request. */
static void conclude(struct keeper *keeper, const struct error *err)
{
    struct save_request *request = keeper->saving.requests;
    keeper->saving.requests = request->next;
    if (request->client && err) {
        client_fail(request->client, request->stream, err);
    } else if (request->client) {
        cleanup_free char *status = keeper_status(keeper);
        client_answer(request->client, request->stream, &(struct outcome){.status = status});
    }
    free(request->folder);
    free(request);
}

/* Lets clients and agent talk again. */
static void let_go(struct keeper *keeper)
{
    struct saving *saving = &keeper->saving;
    struct route *hold = steal_pointer(&saving->hold);
    uv_timer_stop(&saving->patience);
    saving->is_writing = false;
    link_release(&keeper->agent);
    hold->user = &ignoring;
    route_send_eof(keeper, hold);
    keeper_touch(keeper);
}

static void begin(struct keeper *keeper);

static void finish(struct keeper *keeper, const struct error *err)
{
    let_go(keeper);
    conclude(keeper, err);
    begin(keeper);
}

static void fail_all(struct keeper *keeper, const struct error *err)
{
    while (keeper->saving.requests)
        conclude(keeper, err);
}

/* The settings go with the machine, for whoever starts a copy. */
static int write_settings(const struct keeper *keeper, struct error *err)
{
    json_t *json = sandbox_config_to_json(&keeper->config);
    cleanup_free char *text = json_dumps(json, JSON_INDENT(2));
    json_decref(json);
    cleanup_free char *path = xasprintf("%s/sandbox.json", keeper->saving.requests->folder);
    return file_write_atomic(path, text, strlen(text), 0600, err);
}

static void write_down(void *context)
{
    struct keeper *keeper = context;
    struct saving *saving = &keeper->saving;
    saving->result = machine_save(keeper->machine, saving->requests->folder, &saving->err);
    uv_async_send(&saving->written);
}

static void on_written(uv_async_t *async)
{
    struct keeper *keeper = async->data;
    struct saving *saving = &keeper->saving;
    uv_thread_join(&saving->writing);
    let_go(keeper);
    save_set_clock(keeper);
    conclude(keeper, saving->result < 0 ? &saving->err : NULL);
    begin(keeper);
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
    struct keeper *keeper = route->owner;
    keeper->saving.hold = NULL;
    fail_all(keeper, reason);
}

static void on_impatient(uv_timer_t *timer)
{
    struct keeper *keeper = timer->data;
    struct error err;
    error_set(&err, ERROR_TIMEOUT, "the sandbox does not hold still to be copied");
    error_hint(&err, "it is too busy: try again");
    finish(keeper, &err);
}

static void begin(struct keeper *keeper)
{
    static const struct route_user holding = {.frame = on_hold_frame, .lost = on_hold_lost};
    struct saving *saving = &keeper->saving;
    struct error err;
    while (saving->requests) {
        saving->hold = route_start(keeper, OP_HOLD, &(struct buf){0}, &holding, keeper);
        if (saving->hold) {
            link_hold(&keeper->agent);
            uv_timer_start(&saving->patience, on_impatient, HOLD_MS, 0);
            return;
        }
        error_set(&err, ERROR_LIMIT, "too many operations are under way in the sandbox");
        conclude(keeper, &err);
    }
}

static int take_path(void *owner, const struct field *field, struct error *err)
{
    return field->tag == TAG_PATH ? field_replace_text(field, owner, err) : 0;
}

static unsigned count(const struct saving *saving)
{
    unsigned found = 0;
    for (const struct save_request *at = saving->requests; at; at = at->next)
        found++;
    return found;
}

static int check(const struct keeper *keeper, const char *folder, struct error *err)
{
    if (!folder || folder[0] != '/')
        return error_set(err, ERROR_INVALID, "where is the sandbox to be saved?");
    if (keeper->paused) {
        error_set(err, ERROR_UNAVAILABLE, "the sandbox is paused");
        return error_hint(err, "resume it first");
    }
    if (count(&keeper->saving) < REQUESTS_MAX)
        return 0;
    error_set(err, ERROR_BUSY, "%d copies of the sandbox are being made already", REQUESTS_MAX);
    return error_hint(err, "try again in a moment");
}

static void enqueue(struct saving *saving, struct save_request *request)
{
    struct save_request **at = &saving->requests;
    while (*at)
        at = &(*at)->next;
    *at = request;
}

void save_open(struct client *client, const struct frame *frame)
{
    struct keeper *keeper = client->keeper;
    struct error err;
    cleanup_free char *folder = NULL;
    int result = fields_each(frame->payload, frame->length, take_path, &folder, &err);
    if (result == 0)
        result = check(keeper, folder, &err);
    if (result < 0) {
        client_fail(client, frame->stream, &err);
        return;
    }
    struct save_request *request = xcalloc(1, sizeof *request);
    *request = (struct save_request){
        .client = client, .stream = frame->stream, .folder = steal_pointer(&folder)};
    bool is_first = !keeper->saving.requests;
    enqueue(&keeper->saving, request);
    if (is_first)
        begin(keeper);
}

void save_abandon(struct keeper *keeper, const struct client *client)
{
    for (struct save_request *at = keeper->saving.requests; at; at = at->next) {
        if (at->client == client)
            at->client = NULL;
    }
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
    let_go(keeper);
    fail_all(keeper, &err);
}

void save_init(struct keeper *keeper)
{
    struct saving *saving = &keeper->saving;
    uv_timer_init(&keeper->loop, &saving->patience);
    uv_async_init(&keeper->loop, &saving->written, on_written);
    saving->patience.data = saving->written.data = keeper;
}
