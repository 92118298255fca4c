#include <jansson.h>
#include <stdio.h>

#include "base/mem.h"
#include "cli/command.h"
#include "cli/exchange.h"
#include "cli/table.h"
#include "cli/usage.h"
#include "sandbox/config.h"
#include "sandbox/state.h"

#define ANSWER_MS 2000

static struct {
    const char *namespace;
    bool json;
} options;

static json_t *describe(const struct state_entry *entry)
{
    struct error err;
    json_t *json = usage_of_sandbox(entry->namespace, entry->name, options.json, ANSWER_MS, &err);
    /* One that ended meanwhile is no sandbox any more; one that is silent is shown as such. */
    if (!json && err.code == ERROR_TIMEOUT)
        json = json_pack("{s:s, s:s, s:s}", "namespace", entry->namespace, "name", entry->name,
                         "state", "unresponsive");
    return json;
}

static void print_table(const json_t *list)
{
    struct table table;
    table_begin(&table, (const char *[]){"NAME", "NAMESPACE", "IMAGE", "ENGINE", "STATE", "CPUS",
                                         "MEMORY", "AGE", "PORTS", NULL});
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *json = json_array_get(list, i);
        char engine[40], cpus[16], memory[24], age[32];
        snprintf(engine, sizeof engine, "%s/%s", record_text(json, "engine"),
                 record_text(json, "accelerator"));
        snprintf(cpus, sizeof cpus, "%lld",
                 (long long)json_integer_value(json_object_get(json, "cpus")));
        snprintf(memory, sizeof memory, "%lld MB",
                 (long long)json_integer_value(json_object_get(json, "memory_mb")));
        table_age(age, sizeof age,
                  (uint64_t)json_integer_value(json_object_get(json, "started_us")));
        cleanup_free char *ports = usage_ports(json);
        table_row(&table,
                  (const char *[]){record_text(json, "name"), record_text(json, "namespace"),
                                   record_text(json, "image"), engine, record_text(json, "state"),
                                   cpus, memory, age, ports});
    }
    table_print(&table);
}

static int run(const struct arguments *arguments)
{
    (void)arguments;
    struct error err;
    struct state_entry *entries;
    size_t count;
    if (options.namespace && sandbox_check_name("namespace", options.namespace, &err) < 0)
        return report_error(&err, EXIT_USAGE);
    state_sweep();
    if (state_list(options.namespace, &entries, &count, &err) < 0)
        return report_error(&err, EXIT_SANDBOX);
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) {
        json_t *json = describe(&entries[i]);
        if (json)
            json_array_append_new(list, json);
    }
    if (options.json) {
        print_json(list);
    } else {
        print_table(list);
    }
    json_decref(list);
    state_list_free(entries, count);
    return 0;
}

static const struct option option_table[] = {
    {0, "namespace", OPTION_TEXT, &options.namespace, "NS", "only sandboxes of this namespace"},
    {0, "json", OPTION_FLAG, &options.json, NULL, "everything there is to know, as JSON"},
    {0},
};

const struct command ps_command = {
    .name = "ps",
    .summary = "list running sandboxes",
    .usage = "ps [OPTIONS]",
    .description =
        "Lists the sandboxes that run, with what isolates each of them: the engine (vm or jail) "
        "and\n"
        "how it runs (kvm and native on the processor itself, tcg in an emulator). Removes what\n"
        "sandboxes whose keeper was killed have left behind.",
    .examples = "  msb ps\n"
                "  msb ps --json\n",
    .options = option_table,
    .run = run,
};
