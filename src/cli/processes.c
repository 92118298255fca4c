#include "cli/processes.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cli/command.h"
#include "cli/exchange.h"
#include "cli/table.h"
#include "proto/fields.h"
#include "sandbox/client.h"

/* ---- start ----------------------------------------------------------------------------------- */

struct start {
    uv_loop_t loop;
    struct sandbox_client client;
    struct client_call call;
    uint64_t pid; /* 0: not told */
    int exit_code;
};

static int take_pid(void *owner, const struct field *field, struct error *err)
{
    return field->tag == TAG_PID ? field_number(field, owner, err) : 0;
}

static void on_running(struct client_call *call, const uint8_t *fields, uint32_t length)
{
    struct start *start = call->context;
    struct error ignored;
    if (fields_each(fields, length, take_pid, &start->pid, &ignored) == 0)
        call_detach(call);
}

static void on_end(struct client_call *call, const struct outcome *outcome)
{
    struct start *start = call->context;
    if (outcome->verdict == VERDICT_ERROR)
        start->exit_code = report_error(&outcome->error,
                                        outcome->exit_code > 1 ? outcome->exit_code : EXIT_SANDBOX);
    client_close(&start->client);
}

int processes_start(int connection, const struct buf *fields)
{
    static const struct call_handlers handlers = {.event = on_running, .end = on_end};
    struct start start = {0};
    struct error err;
    uv_loop_init(&start.loop);
    if (client_open(&start.client, &start.loop, connection, &err) < 0)
        return report_error(&err, EXIT_SANDBOX);
    call_start(&start.client, &start.call, OP_EXEC, fields, &handlers, &start);
    uv_run(&start.loop, UV_RUN_DEFAULT);
    if (start.exit_code)
        return start.exit_code;
    if (!start.pid) {
        error_set(&err, ERROR_PROTOCOL, "the sandbox did not tell the command's process id");
        return report_error(&err, EXIT_SANDBOX);
    }
    printf("%" PRIu64 "\n", start.pid);
    return 0;
}

/* ---- list ------------------------------------------------------------------------------------ */

static void format_state(char *out, size_t size, const json_t *json)
{
    const char *verdict = record_text(json, "verdict");
    if (strcmp(verdict, "exited") == 0)
        snprintf(out, size, "exited with %lld", record_number(json, "exit_code"));
    else if (strcmp(verdict, "signaled") == 0)
        snprintf(out, size, "ended by signal %lld", record_number(json, "signal"));
    else
        snprintf(out, size, "%s", strcmp(verdict, "-") == 0 ? record_text(json, "state") : verdict);
}

static char *join_arguments(const json_t *arguments)
{
    cleanup_buf struct buf text = {0};
    for (size_t i = 0; i < json_array_size(arguments); i++) {
        const char *argument = json_string_value(json_array_get(arguments, i));
        buf_printf(&text, "%s%s", i > 0 ? " " : "", argument ? argument : "");
    }
    return xstrdup(buf_text(&text));
}

static void print_table(const json_t *list)
{
    struct table table;
    table_begin(&table, (const char *[]){"PID", "STATE", "KIND", "TERMINAL", "USER", "AGE",
                                         "COMMAND", NULL});
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *json = json_array_get(list, i);
        char pid[24], state[40], age[32];
        cleanup_free char *command = join_arguments(json_object_get(json, "args"));
        snprintf(pid, sizeof pid, "%lld", record_number(json, "pid"));
        format_state(state, sizeof state, json);
        table_age(age, sizeof age, (uint64_t)record_number(json, "started_us"));
        table_row(&table,
                  (const char *[]){pid, state,
                                   json_is_true(json_object_get(json, "kept")) ? "background"
                                                                               : "attached",
                                   json_is_true(json_object_get(json, "terminal")) ? "yes" : "no",
                                   record_text(json, "user"), age, command});
    }
    table_print(&table);
}

int processes_list(int connection, bool json)
{
    struct collection answer;
    struct outcome outcome;
    int result = exchange_run(connection, OP_PROCESS_LIST, NULL, &answer, &outcome);
    if (result == 0 && json)
        print_json(answer.records);
    else if (result == 0)
        print_table(answer.records);
    collect_free(&answer);
    outcome_free(&outcome);
    return result;
}
