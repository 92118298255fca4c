#include "cli/exchange.h"

#include <signal.h>
#include <stdio.h>

#include "base/mem.h"
#include "cli/command.h"

struct exchange {
    uv_loop_t loop;
    struct sandbox_client client;
    uv_signal_t interrupt;
    struct outcome *outcome;
};

static void on_ended(struct collection *answer, const struct outcome *outcome)
{
    struct exchange *exchange = answer->context;
    *exchange->outcome = *outcome;
    exchange->outcome->status = outcome->status ? xstrdup(outcome->status) : NULL;
    exchange->outcome->killed = NULL;
    client_close(&exchange->client);
    uv_close((uv_handle_t *)&exchange->interrupt, NULL);
}

static void on_interrupt(uv_signal_t *watch, int number)
{
    (void)number;
    struct collection *answer = watch->data;
    call_cancel(&answer->call);
}

int exchange_run(int connection, enum operation operation, const struct buf *fields,
                 struct collection *answer, struct outcome *outcome)
{
    struct error err;
    struct exchange exchange = {.outcome = outcome};
    *answer = (struct collection){.ended = on_ended, .context = &exchange};
    *outcome = (struct outcome){0};
    uv_loop_init(&exchange.loop);
    if (client_open(&exchange.client, &exchange.loop, connection, &err) < 0)
        return report_error(&err, EXIT_SANDBOX);
    uv_signal_init(&exchange.loop, &exchange.interrupt);
    exchange.interrupt.data = answer;
    uv_signal_start(&exchange.interrupt, on_interrupt, SIGINT);
    collect_start(answer, &exchange.client, operation, fields, NULL, 0);
    uv_run(&exchange.loop, UV_RUN_DEFAULT);
    uv_loop_close(&exchange.loop);
    if (outcome->verdict == VERDICT_CANCELLED)
        return 128 + SIGINT;
    if (outcome->verdict != VERDICT_ERROR)
        return 0;
    return report_error(&outcome->error, EXIT_SANDBOX);
}

const char *record_text(const json_t *record, const char *key)
{
    const char *text = json_string_value(json_object_get(record, key));
    return text ? text : "-";
}

long long record_number(const json_t *record, const char *key)
{
    return (long long)json_integer_value(json_object_get(record, key));
}

void print_json(const json_t *json)
{
    json_dumpf(json, stdout, JSON_INDENT(2));
    printf("\n");
}
