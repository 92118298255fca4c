#include <jansson.h>
#include <stdio.h>

#include "cli/command.h"
#include "cli/exchange.h"
#include "cli/table.h"
#include "cli/usage.h"
#include "sandbox/config.h"

#define ANSWER_MS 5000

static struct {
    const char *namespace;
    bool json;
} options;

static double number_of(const json_t *json, const char *key)
{
    return json_number_value(json_object_get(json, key));
}

static void add_row(struct table *table, const char *what, const char *used, const char *limit)
{
    table_row(table, (const char *[]){what, used, limit});
}

static void add_size(struct table *table, const char *what, double used, double limit)
{
    char first[32], second[32];
    snprintf(first, sizeof first, "%.0f MB", used / 1048576);
    snprintf(second, sizeof second, "%.0f MB", limit / 1048576);
    add_row(table, what, first, limit > 0 ? second : "-");
}

static void add_count(struct table *table, const char *what, double used, double limit)
{
    char first[32], second[32];
    snprintf(first, sizeof first, "%.0f", used);
    snprintf(second, sizeof second, "%.0f", limit);
    add_row(table, what, first, limit > 0 ? second : "-");
}

static void add_processor(struct table *table, const json_t *status)
{
    char load[32], limit[32], spent[32];
    double allowed = number_of(status, "cpu_limit");
    snprintf(load, sizeof load, "%.0f %%", number_of(status, "cpu_percent"));
    snprintf(limit, sizeof limit, "%.0f %%",
             allowed > 0 ? allowed : 100 * number_of(status, "cpus"));
    snprintf(spent, sizeof spent, "%.2f s", number_of(status, "cpu_us") / 1e6);
    add_row(table, "processor", load, limit);
    add_row(table, "processor time", spent, "-");
}

static void print_table(const json_t *status)
{
    const json_t *inside = json_object_get(status, "inside");
    struct table table;
    char uptime[32];
    table_begin(&table, (const char *[]){"WHAT", "USED", "LIMIT", NULL});
    add_processor(&table, status);
    if (inside) {
        add_size(&table, "memory", number_of(inside, "memory_used"),
                 number_of(inside, "memory_total"));
        add_size(&table, "disk", number_of(inside, "disk_used"), number_of(inside, "disk_total"));
        add_count(&table, "files", number_of(inside, "files_used"),
                  number_of(inside, "files_total"));
        add_count(&table, "processes", number_of(inside, "processes"),
                  number_of(status, "processes"));
        add_count(&table, "killed for memory", number_of(inside, "memory_kills"), 0);
    }
    add_size(&table, "memory of the host", number_of(status, "host_memory"), 0);
    snprintf(uptime, sizeof uptime, "%.0f s", number_of(status, "uptime_us") / 1e6);
    add_row(&table, "up for", uptime, "-");
    table_print(&table);
}

static int run(const struct arguments *arguments)
{
    struct error err;
    const char *namespace = options.namespace ? options.namespace : SANDBOX_DEFAULT_NAMESPACE;
    if (arguments->count != 1) {
        error_set(&err, ERROR_INVALID, "msb metrics takes the name of one sandbox");
        error_hint(&err, "msb ps lists them");
        return report_error(&err, EXIT_USAGE);
    }
    const char *name = arguments->words[0];
    if (sandbox_check_name("namespace", namespace, &err) < 0 ||
        sandbox_check_name("sandbox name", name, &err) < 0)
        return report_error(&err, EXIT_USAGE);
    json_t *status = usage_of_sandbox(namespace, name, true, ANSWER_MS, &err);
    if (!status)
        return report_error(&err, EXIT_SANDBOX);
    if (options.json) {
        print_json(status);
    } else {
        print_table(status);
    }
    json_decref(status);
    return 0;
}

static const struct option option_table[] = {
    {0, "namespace", OPTION_TEXT, &options.namespace, "NS", "the sandbox's namespace (default)"},
    {0, "json", OPTION_FLAG, &options.json, NULL, "everything there is to know, as JSON"},
    {0},
};

const struct command metrics_command = {
    .name = "metrics",
    .summary = "tell what a sandbox uses",
    .usage = "metrics NAME [OPTIONS]",
    .argument = ARGUMENT_SANDBOX,
    .description =
        "Tells what the sandbox NAME uses, beside what it may use at most. The load of the\n"
        "processor is that since somebody last asked, or since the start, in percent of one\n"
        "processor. A sandbox that is paused tells only what it costs the host.",
    .examples = "  msb metrics box\n"
                "  msb metrics box --json\n",
    .options = option_table,
    .run = run,
};
