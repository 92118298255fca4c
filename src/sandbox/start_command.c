#include "sandbox/start_command.h"

#include "proto/fields.h"
#include "sandbox/requests.h"

static void tell(struct keeper *keeper, const struct error *failure)
{
    void (*begun)(struct keeper *, const struct error *) = keeper->command.begun;
    keeper->command.begun = NULL;
    if (begun)
        begun(keeper, failure);
}

static int take_pid(void *owner, const struct field *field, struct error *err)
{
    return field->tag == TAG_PID ? field_number(field, owner, err) : 0;
}

static void take_event(struct keeper *keeper, const struct frame *frame)
{
    struct error ignored;
    fields_each(frame->payload, frame->length, take_pid, &keeper->command.pid, &ignored);
    if (keeper->command.pid)
        tell(keeper, NULL);
}

static void take_end(struct keeper *keeper, const struct frame *frame)
{
    struct start_command *command = &keeper->command;
    struct outcome outcome;
    struct error err;
    if (outcome_read(frame, &outcome, &err) < 0)
        outcome = outcome_error(&err);
    command->ended = true;
    command->verdict = outcome.verdict;
    command->exit_code = outcome.exit_code;
    command->signal = outcome.signal;
    err = outcome.error;
    outcome_free(&outcome);
    tell(keeper, &err);
}

static void on_frame(struct route *route, const struct frame *frame)
{
    struct keeper *keeper = route->owner;
    if (frame->type == FRAME_DATA)
        route_grant(keeper, route, frame->length);
    else if (frame->type == FRAME_EVENT)
        take_event(keeper, frame);
    else if (frame->type == FRAME_END)
        take_end(keeper, frame);
}

static void on_lost(struct route *route, const struct error *reason)
{
    tell(route->owner, reason);
}

void start_command_run(struct keeper *keeper,
                       void (*begun)(struct keeper *keeper, const struct error *failure))
{
    static const struct route_user user = {.frame = on_frame, .lost = on_lost};
    static const uint64_t unlimited = 0;
    cleanup_buf struct buf fields = {0};
    keeper->command.begun = begun;
    exec_request_fields(&fields, &(struct exec_request){.argv = keeper->config.start,
                                                        .output_limit = &unlimited,
                                                        .keep = true});
    struct route *route = route_start(keeper, OP_EXEC, &fields, &user, keeper);
    if (!route) {
        struct error err;
        error_set(&err, ERROR_LIMIT, "too many operations are under way for its command");
        tell(keeper, &err);
        return;
    }
    route->prints = true;
    route_send_eof(keeper, route);
}

void start_command_describe(const struct keeper *keeper, json_t *status)
{
    const struct start_command *command = &keeper->command;
    if (!command->pid)
        return;
    json_object_set_new(status, "start_pid", json_integer((json_int_t)command->pid));
    json_object_set_new(status, "start_state", json_string(command->ended ? "ended" : "running"));
    if (!command->ended)
        return;
    json_object_set_new(status, "start_verdict", json_string(verdict_name(command->verdict)));
    json_object_set_new(status, "start_exit_code", json_integer(command->exit_code));
    json_object_set_new(status, "start_signal", json_integer(command->signal));
}
