#include "cli/processes.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cli/command.h"
#include "cli/table.h"
#include "proto/fields.h"
#include "proto/wire.h"
#include "sandbox/client.h"

/* Far more than a list can have; a sandbox that sends more is not believed. */
#define RECORDS_MAX (64u << 20)

struct exchange {
    uv_loop_t loop;
    struct sandbox_client client;
    struct client_call call;
    uint64_t pid; /* 0: not told */
    struct buf records;
    int exit_code;
};

static int run_exchange(struct exchange *exchange, int connection, enum operation operation,
                        const struct buf *fields, const struct call_handlers *handlers)
{
    struct error err;
    uv_loop_init(&exchange->loop);
    if (client_open(&exchange->client, &exchange->loop, connection, &err) < 0)
        return report_error(&err, EXIT_SANDBOX);
    call_start(&exchange->client, &exchange->call, operation, fields, handlers, exchange);
    uv_run(&exchange->loop, UV_RUN_DEFAULT);
    return exchange->exit_code;
}

static int judge(const struct outcome *outcome)
{
    if (outcome->verdict != VERDICT_ERROR)
        return 0;
    return report_error(&outcome->error,
                        outcome->exit_code > 1 ? outcome->exit_code : EXIT_SANDBOX);
}

static void on_end(struct client_call *call, const struct outcome *outcome)
{
    struct exchange *exchange = call->context;
    exchange->exit_code = judge(outcome);
    client_close(&exchange->client);
}

/* ---- start ----------------------------------------------------------------------------------- */

static int take_pid(void *owner, const struct field *field, struct error *err)
{
    return field->tag == TAG_PID ? field_number(field, owner, err) : 0;
}

static void on_running(struct client_call *call, const uint8_t *fields, uint32_t length)
{
    struct exchange *exchange = call->context;
    struct error ignored;
    if (fields_each(fields, length, take_pid, &exchange->pid, &ignored) == 0)
        call_detach(call);
}

int processes_start(int connection, const struct buf *fields)
{
    static const struct call_handlers handlers = {.event = on_running, .end = on_end};
    struct exchange exchange = {0};
    int result = run_exchange(&exchange, connection, OP_EXEC, fields, &handlers);
    if (result)
        return result;
    if (!exchange.pid) {
        struct error err;
        error_set(&err, ERROR_PROTOCOL, "the sandbox did not tell the command's process id");
        return report_error(&err, EXIT_SANDBOX);
    }
    printf("%" PRIu64 "\n", exchange.pid);
    return 0;
}

/* ---- list ------------------------------------------------------------------------------------ */

static void on_records(struct client_call *call, enum channel channel, const uint8_t *bytes,
                       size_t length)
{
    struct exchange *exchange = call->context;
    if (channel == CHANNEL_RESULTS && buf_length(&exchange->records) < RECORDS_MAX)
        buf_append(&exchange->records, bytes, length);
    call_consumed(call, length);
}

static json_t *read_records(struct buf *records)
{
    json_t *list = json_array();
    while (buf_length(records) >= 4) {
        uint32_t size = wire_get32(buf_data(records));
        if (buf_length(records) - 4 < size)
            break;
        json_t *record =
            json_loadb((const char *)buf_data(records) + 4, size, JSON_ALLOW_NUL, NULL);
        if (record)
            json_array_append_new(list, record);
        buf_consume(records, 4 + (size_t)size);
    }
    return list;
}

static const char *text_of(const json_t *json, const char *key)
{
    const char *text = json_string_value(json_object_get(json, key));
    return text ? text : "-";
}

static long long number_of(const json_t *json, const char *key)
{
    return (long long)json_integer_value(json_object_get(json, key));
}

static void format_state(char *out, size_t size, const json_t *json)
{
    const char *verdict = text_of(json, "verdict");
    if (strcmp(verdict, "exited") == 0)
        snprintf(out, size, "exited with %lld", number_of(json, "exit_code"));
    else if (strcmp(verdict, "signaled") == 0)
        snprintf(out, size, "ended by signal %lld", number_of(json, "signal"));
    else
        snprintf(out, size, "%s", strcmp(verdict, "-") == 0 ? text_of(json, "state") : verdict);
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
        snprintf(pid, sizeof pid, "%lld", number_of(json, "pid"));
        format_state(state, sizeof state, json);
        table_age(age, sizeof age, (uint64_t)number_of(json, "started_us"));
        table_row(&table,
                  (const char *[]){pid, state,
                                   json_is_true(json_object_get(json, "kept")) ? "background"
                                                                               : "attached",
                                   json_is_true(json_object_get(json, "terminal")) ? "yes" : "no",
                                   text_of(json, "user"), age, command});
    }
    table_print(&table);
}

int processes_list(int connection, bool json)
{
    static const struct call_handlers handlers = {.data = on_records, .end = on_end};
    struct exchange exchange = {0};
    int result = run_exchange(&exchange, connection, OP_PROCESS_LIST, NULL, &handlers);
    json_t *list = read_records(&exchange.records);
    buf_free(&exchange.records);
    if (result == 0 && json) {
        json_dumpf(list, stdout, JSON_INDENT(2));
        printf("\n");
    } else if (result == 0) {
        print_table(list);
    }
    json_decref(list);
    return result;
}
