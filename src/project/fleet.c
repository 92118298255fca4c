#include "project/fleet.h"

#include <jansson.h>
#include <signal.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "sandbox/launch.h"
#include "sandbox/requests.h"

#define PROBE_MS 60000
#define RETRY_FIRST_MS 10
#define RETRY_MOST_MS 250
#define STOP_MS 15000
/* As the exit code of a start command whose sandbox is gone. */
#define EXIT_LOST 125

static void advance(struct fleet *fleet);

/* ---- the end --------------------------------------------------------------------------------- */

static void close_handle(uv_handle_t *handle, void *context)
{
    (void)context;
    bool is_of_link = handle->type == UV_NAMED_PIPE || handle->type == UV_PREPARE;
    if (!uv_is_closing(handle) && !is_of_link)
        uv_close(handle, NULL);
}

/* Leaves the sandboxes to themselves, or what is left of them. */
static void leave(struct fleet *fleet)
{
    for (size_t i = 0; i < fleet->count; i++) {
        struct fleet_member *member = &fleet->members[i];
        if (member->is_open)
            client_close(&member->client);
        member->is_open = false;
    }
    uv_walk(&fleet->loop, close_handle, NULL);
}

static void on_out_of_patience(uv_timer_t *timer)
{
    leave(timer->data);
}

static void on_stopped(struct client_call *call, const struct outcome *outcome)
{
    (void)call, (void)outcome;
}

/* One whose start is under way is stopped when that is over. */
static void stop_member(struct fleet_member *member)
{
    static const struct call_handlers handlers = {.end = on_stopped};
    bool has_started = member->state > FLEET_STARTING && member->state < FLEET_GONE;
    uv_timer_stop(&member->retry);
    if (member->stopping || !has_started || !member->is_open)
        return;
    member->stopping = true;
    call_start(&member->client, &member->stop, OP_STOP, NULL, &handlers, member);
}

static bool all_gone(const struct fleet *fleet)
{
    for (size_t i = 0; i < fleet->count; i++) {
        if (fleet->members[i].is_open)
            return false;
    }
    return true;
}

/* Those that others depend on go last, but nothing waits for that: they end at once. */
static void stop_all(struct fleet *fleet)
{
    if (!fleet->is_ending)
        uv_timer_start(&fleet->patience, on_out_of_patience, STOP_MS, 0);
    fleet->is_ending = true;
    for (size_t i = fleet->count; i > 0; i--)
        stop_member(&fleet->members[i - 1]);
    if (all_gone(fleet))
        leave(fleet);
}

static void fail(struct fleet_member *member, const struct error *err)
{
    struct fleet *fleet = member->fleet;
    if (!fleet->is_ending && !fleet->has_failed)
        fleet->events->failed(member, err);
    fleet->has_failed = true;
    stop_all(fleet);
}

static int exit_code_of(const struct outcome *outcome)
{
    return outcome->verdict == VERDICT_SIGNALED ? 128 + outcome->signal
           : outcome->verdict == VERDICT_MEMORY ? 128 + SIGKILL
           : outcome->verdict == VERDICT_ERROR  ? EXIT_LOST
                                                : outcome->exit_code;
}

static void end(struct fleet_member *member, const struct outcome *outcome)
{
    struct fleet *fleet = member->fleet;
    if (fleet->exit_code == 0)
        fleet->exit_code = exit_code_of(outcome);
    fleet->events->ended(member, outcome);
}

/* It went by itself, or somebody else stopped it. */
static void lose(struct fleet_member *member, enum fleet_state before)
{
    struct error err;
    error_set(&err, ERROR_UNAVAILABLE, "the sandbox ended%s",
              before < FLEET_READY ? " before it was ready" : "");
    struct outcome outcome = outcome_error(&err);
    if (before < FLEET_READY)
        fail(member, &err);
    else if (before == FLEET_READY)
        end(member, &outcome);
}

/* The keeper closes its side when nothing is left of the sandbox. */
static void on_closed(struct sandbox_client *client)
{
    struct fleet_member *member = client->context;
    struct fleet *fleet = member->fleet;
    enum fleet_state before = member->state;
    bool was_left = !member->is_open;
    member->is_open = false;
    member->state = FLEET_GONE;
    if (was_left)
        return;
    if (!fleet->is_ending)
        lose(member, before);
    if (fleet->is_ending && all_gone(fleet))
        leave(fleet);
    else
        advance(fleet);
}

/* ---- output and end of the start command ----------------------------------------------------- */

static void on_output(struct client_call *call, enum channel channel, const uint8_t *bytes,
                      size_t length)
{
    struct fleet_member *member = call->context;
    if (member->fleet->events->output)
        member->fleet->events->output(member, channel, bytes, length);
    call_consumed(call, length);
}

static void fail_unready(struct fleet_member *member, const struct outcome *outcome)
{
    struct error err;
    error_set(&err, ERROR_UNAVAILABLE,
              "its start command ended with exit code %d before port %u inside took a connection",
              exit_code_of(outcome), member->config.ports[0].guest);
    error_hint(&err, "\"msb log %s\" shows what it said", member->sandbox->name);
    fail(member, &err);
}

static void on_command_end(struct client_call *call, const struct outcome *outcome)
{
    struct fleet_member *member = call->context;
    struct fleet *fleet = member->fleet;
    if (fleet->is_ending)
        return;
    bool was_probing = member->state == FLEET_PROBING;
    member->state = FLEET_OVER;
    if (was_probing) {
        fail_unready(member, outcome);
        return;
    }
    end(member, outcome);
    advance(fleet);
}

static void watch_command(struct fleet_member *member)
{
    static const struct call_handlers handlers = {.data = on_output, .end = on_command_end};
    cleanup_buf struct buf fields = {0};
    process_request_fields(&fields, &(struct process_request){.pid = member->pid});
    call_start(&member->client, &member->output, OP_PROCESS_ATTACH, &fields, &handlers, member);
}

/* ---- readiness ------------------------------------------------------------------------------- */

static void become_ready(struct fleet_member *member)
{
    member->state = FLEET_READY;
    member->fleet->events->ready(member);
    advance(member->fleet);
}

static void probe(struct fleet_member *member);

static void on_retry(uv_timer_t *timer)
{
    probe(timer->data);
}

static void on_connected(struct client_call *call, const uint8_t *fields, uint32_t length)
{
    (void)fields, (void)length;
    struct fleet_member *member = call->context;
    member->connected = true;
    call_cancel(call);
}

static void on_probe_data(struct client_call *call, enum channel channel, const uint8_t *bytes,
                          size_t length)
{
    (void)channel, (void)bytes;
    call_consumed(call, length);
}

static void on_probe_end(struct client_call *call, const struct outcome *outcome)
{
    (void)outcome;
    struct fleet_member *member = call->context;
    struct error err;
    if (member->state != FLEET_PROBING || member->fleet->is_ending)
        return;
    if (member->connected) {
        become_ready(member);
        return;
    }
    if (clock_monotonic_ms() >= member->deadline_ms) {
        error_set(&err, ERROR_TIMEOUT, "port %u inside took no connection for %d seconds",
                  member->config.ports[0].guest, PROBE_MS / 1000);
        error_hint(&err, "its start command must listen there, on all addresses or 127.0.0.1");
        fail(member, &err);
        return;
    }
    uv_timer_start(&member->retry, on_retry, member->retry_ms, 0);
    member->retry_ms = member->retry_ms * 2 < RETRY_MOST_MS ? member->retry_ms * 2 : RETRY_MOST_MS;
}

static void probe(struct fleet_member *member)
{
    static const struct call_handlers handlers = {
        .data = on_probe_data, .event = on_connected, .end = on_probe_end};
    cleanup_buf struct buf fields = {0};
    port_request_fields(&fields, member->config.ports[0].guest);
    call_start(&member->client, &member->probe, OP_CONNECT, &fields, &handlers, member);
}

/* ---- start ----------------------------------------------------------------------------------- */

static uint64_t pid_in(const char *status)
{
    json_t *json = json_loads(status ? status : "{}", 0, NULL);
    uint64_t pid = (uint64_t)json_integer_value(json_object_get(json, "start_pid"));
    json_decref(json);
    return pid;
}

static void on_started(struct client_call *call, const struct outcome *outcome)
{
    struct fleet_member *member = call->context;
    if (outcome->verdict != VERDICT_DONE) {
        member->state = FLEET_GONE;
        fail(member, &outcome->error);
        return;
    }
    member->pid = pid_in(outcome->status);
    member->state = member->pid && member->config.port_count ? FLEET_PROBING : FLEET_READY;
    if (member->fleet->is_ending) {
        stop_member(member);
        return;
    }
    if (member->pid)
        watch_command(member);
    if (member->state == FLEET_READY) {
        become_ready(member);
        return;
    }
    member->retry_ms = RETRY_FIRST_MS;
    member->deadline_ms = clock_monotonic_ms() + PROBE_MS;
    probe(member);
}

static void start_member(struct fleet_member *member)
{
    static const struct call_handlers handlers = {.end = on_started};
    struct error err;
    int fd = steal_fd(&member->connection);
    member->state = FLEET_STARTING;
    cleanup_free char *settings = launch_settings(&member->config);
    int result = launch_begin(fd, settings, NULL, &err);
    if (result == 0)
        result = client_open(&member->client, &member->fleet->loop, fd, &err);
    if (result < 0) {
        fail(member, &err);
        return;
    }
    member->is_open = true;
    member->client.closed = on_closed;
    member->client.context = member;
    call_join(&member->client, &member->start, LAUNCH_STREAM, &handlers, member);
}

/* Those that are not of this fleet run already. */
static bool may_start(const struct fleet_member *member)
{
    const struct fleet *fleet = member->fleet;
    for (size_t i = 0; i < fleet->count; i++) {
        const struct fleet_member *other = &fleet->members[i];
        if (other->state < FLEET_READY && member->sandbox->depends_on &&
            strv_contains(member->sandbox->depends_on, other->sandbox->name))
            return false;
    }
    return true;
}

/* Starts whoever need not wait any more, and notices when there is nothing left to wait for. */
static void advance(struct fleet *fleet)
{
    size_t ready = 0, lasting = 0;
    for (size_t i = 0; i < fleet->count && !fleet->is_ending; i++) {
        struct fleet_member *member = &fleet->members[i];
        if (member->state == FLEET_WAITING && may_start(member))
            start_member(member);
        ready += member->state >= FLEET_READY;
        lasting += member->state < FLEET_OVER;
    }
    if (fleet->is_ending)
        return;
    if (fleet->stays && lasting == 0)
        stop_all(fleet);
    else if (!fleet->stays && ready == fleet->count)
        leave(fleet);
}

static void on_signal(uv_signal_t *watch, int number)
{
    struct fleet *fleet = watch->data;
    fleet->signal = number;
    stop_all(fleet);
}

static void watch_signals(struct fleet *fleet)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < 3; i++) {
        uv_signal_init(&fleet->loop, &fleet->signals[i]);
        fleet->signals[i].data = fleet;
        uv_signal_start(&fleet->signals[i], on_signal, numbers[i]);
    }
}

struct fleet_member *fleet_add(struct fleet *fleet, const struct project_sandbox *sandbox)
{
    fleet->members = xrealloc(fleet->members, (fleet->count + 1) * sizeof *fleet->members);
    struct fleet_member *member = &fleet->members[fleet->count++];
    *member = (struct fleet_member){.sandbox = sandbox, .connection = -1};
    return member;
}

int fleet_fork(struct fleet *fleet, struct error *err)
{
    for (size_t i = 0; i < fleet->count; i++) {
        fleet->members[i].fleet = fleet;
        fleet->members[i].connection = launch_fork(fleet->members[i].config.name, err);
        if (fleet->members[i].connection < 0)
            return -1;
    }
    return 0;
}

void fleet_run(struct fleet *fleet)
{
    uv_loop_init(&fleet->loop);
    uv_timer_init(&fleet->loop, &fleet->patience);
    fleet->patience.data = fleet;
    for (size_t i = 0; i < fleet->count; i++) {
        uv_timer_init(&fleet->loop, &fleet->members[i].retry);
        fleet->members[i].retry.data = &fleet->members[i];
    }
    watch_signals(fleet);
    advance(fleet);
    uv_run(&fleet->loop, UV_RUN_DEFAULT);
    uv_loop_close(&fleet->loop);
}

void fleet_free(struct fleet *fleet)
{
    for (size_t i = 0; i < fleet->count; i++) {
        fd_close(fleet->members[i].connection);
        sandbox_config_free(&fleet->members[i].config);
    }
    free(fleet->members);
    *fleet = (struct fleet){0};
}
