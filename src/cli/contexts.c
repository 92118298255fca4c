#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cli/command.h"
#include "cli/exchange.h"
#include "cli/table.h"
#include "sandbox/config.h"
#include "sandbox/requests.h"
#include "sandbox/state.h"

static struct {
    const char *namespace, *make, *id, *restart, *remove, *workdir;
    char **env;
    bool json;
} options;

static void print_table(const json_t *list)
{
    struct table table;
    table_begin(&table,
                (const char *[]){"ID", "LANGUAGE", "STATE", "CALLS", "PID", "STARTED IN", NULL});
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *record = json_array_get(list, i);
        char calls[24], pid[24];
        snprintf(calls, sizeof calls, "%lld", record_number(record, "count"));
        snprintf(pid, sizeof pid, "%lld", record_number(record, "pid"));
        table_row(&table,
                  (const char *[]){record_text(record, "id"), record_text(record, "language"),
                                   record_text(record, "state"), calls, pid,
                                   record_text(record, "cwd")});
    }
    table_print(&table);
}

/* The list, or the one context that was made or restarted. */
static void print_answer(const struct collection *answer, const struct outcome *outcome)
{
    json_t *list = json_incref(answer->records);
    json_t *one = outcome->status ? json_loads(outcome->status, 0, NULL) : NULL;
    if (one)
        json_array_append_new(list, one);
    if (options.json)
        print_json(list);
    else
        print_table(list);
    json_decref(list);
}

static int check_options(enum operation *operation, struct error *err)
{
    int count = !!options.make + !!options.restart + !!options.remove;
    if (count > 1) {
        error_set(err, ERROR_INVALID, "give one of --make, --restart and --remove");
        return error_hint(err, "msb contexts NAME --make python");
    }
    if (!options.make && (options.id || options.workdir || options.env)) {
        error_set(err, ERROR_INVALID, "--id, --workdir and --env are for --make");
        return error_hint(err, "msb contexts NAME --make python --workdir /tmp");
    }
    *operation = options.make      ? OP_CONTEXT_MAKE
                 : options.restart ? OP_CONTEXT_RESTART
                 : options.remove  ? OP_CONTEXT_REMOVE
                                   : OP_CONTEXT_LIST;
    return 0;
}

static int manage(int connection, enum operation operation)
{
    cleanup_buf struct buf fields = {0};
    const char *other = options.restart ? options.restart : options.remove;
    context_request_fields(&fields, &(struct context_request){.id = other ? other : options.id,
                                                              .language = options.make,
                                                              .cwd = options.workdir,
                                                              .env = options.env});
    struct collection answer;
    struct outcome outcome;
    int result = exchange_run(connection, operation, &fields, &answer, &outcome);
    if (result == 0 && operation != OP_CONTEXT_REMOVE)
        print_answer(&answer, &outcome);
    collect_free(&answer);
    outcome_free(&outcome);
    return result;
}

static int run(const struct arguments *arguments)
{
    struct error err;
    enum operation operation;
    if (arguments->count != 1) {
        error_set(&err, ERROR_INVALID, "msb contexts takes the name of one sandbox");
        error_hint(&err, "msb contexts NAME");
        return report_error(&err, EXIT_USAGE);
    }
    const char *namespace = options.namespace ? options.namespace : SANDBOX_DEFAULT_NAMESPACE;
    if (check_options(&operation, &err) < 0 ||
        sandbox_check_name("namespace", namespace, &err) < 0 ||
        sandbox_check_name("sandbox name", arguments->words[0], &err) < 0)
        return report_error(&err, EXIT_USAGE);
    int connection = state_connect(namespace, arguments->words[0], &err);
    int result = connection < 0 ? report_error(&err, EXIT_SANDBOX) : manage(connection, operation);
    strv_free(options.env);
    return result;
}

static const struct option option_table[] = {
    {'m', "make", OPTION_TEXT, &options.make, "LANG", "make one: python, node or bash"},
    {0, "id", OPTION_TEXT, &options.id, "ID", "what to call it (default: python-2 or the like)"},
    {'w', "workdir", OPTION_TEXT, &options.workdir, "DIR", "where it starts"},
    {'e', "env", OPTION_LIST, &options.env, "K=V", "an environment variable of it"},
    {0, "restart", OPTION_TEXT, &options.restart, "ID", "end all that runs in it and begin anew"},
    {0, "remove", OPTION_TEXT, &options.remove, "ID", "end all that runs in it"},
    {0, "namespace", OPTION_TEXT, &options.namespace, "NS", "the sandbox's namespace (default)"},
    {0, "json", OPTION_FLAG, &options.json, NULL, "as JSON"},
    {0},
};

const struct command contexts_command = {
    .name = "contexts",
    .summary = "list, make, restart and remove live interpreters of a sandbox",
    .usage = "contexts NAME [OPTIONS]",
    .argument = ARGUMENT_SANDBOX,
    .description =
        "A context is a live interpreter whose variables persist between calls. Calls to one\n"
        "context wait for each other, different contexts run side by side. The first context of a\n"
        "language has the language's name and comes by itself.",
    .examples = "  msb contexts box\n"
                "  msb contexts box --make python --id other --workdir /tmp\n"
                "  msb exec box --context other -c 'x = 1'\n"
                "  msb contexts box --restart other\n",
    .options = option_table,
    .run = run,
};
