#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cli/command.h"
#include "cli/exchange.h"
#include "cli/table.h"
#include "cli/usage.h"
#include "sandbox/config.h"
#include "sandbox/state.h"
#include "server/server.h"

#define ANSWER_MS 2000

static struct {
    const char *namespace;
    bool json;
} options;

/* In the words of sandbox.metrics.get. */
static json_t *describe(const struct state_entry *entry, const json_t *usage)
{
    const json_t *inside = json_object_get(usage, "inside");
    json_t *disk = json_object_get(inside, "disk_used");
    json_t *memory = json_object_get(usage, "host_memory");
    json_t *json =
        json_pack("{s:s, s:s, s:s, s:s, s:b, s:O?, s:n, s:O?}", "namespace", entry->namespace,
                  "name", entry->name, "engine", record_text(usage, "engine"), "state",
                  usage ? record_text(usage, "state") : "unresponsive", "running", 1, "cpu_usage",
                  json_object_get(usage, "cpu_percent"), "memory_usage", "disk_usage", disk);
    if (memory)
        json_object_set_new(json, "memory_usage", json_integer(json_integer_value(memory) >> 20));
    return json;
}

static bool is_wanted(const struct arguments *arguments, const char *name)
{
    bool found = arguments->count == 0;
    for (size_t i = 0; i < arguments->count && !found; i++)
        found = strcmp(arguments->words[i], name) == 0;
    return found;
}

static json_t *look(const struct arguments *arguments, struct error *err)
{
    struct state_entry *entries;
    size_t count;
    if (state_list(options.namespace, &entries, &count, err) < 0)
        return NULL;
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) {
        struct error problem;
        if (!is_wanted(arguments, entries[i].name))
            continue;
        json_t *usage =
            usage_of_sandbox(entries[i].namespace, entries[i].name, true, ANSWER_MS, &problem);
        if (usage || problem.code == ERROR_TIMEOUT)
            json_array_append_new(list, describe(&entries[i], usage));
        json_decref(usage);
    }
    state_list_free(entries, count);
    return list;
}

static void format_number(char *out, size_t size, const json_t *value, double unit,
                          const char *name)
{
    if (json_is_number(value))
        snprintf(out, size, "%.0f %s", json_number_value(value) / unit, name);
    else
        snprintf(out, size, "-");
}

static void print_table(const json_t *list)
{
    struct table table;
    table_begin(&table, (const char *[]){"NAME", "NAMESPACE", "ENGINE", "STATE", "CPU", "MEMORY",
                                         "DISK", NULL});
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *json = json_array_get(list, i);
        char load[32], memory[32], disk[32];
        format_number(load, sizeof load, json_object_get(json, "cpu_usage"), 1, "%");
        format_number(memory, sizeof memory, json_object_get(json, "memory_usage"), 1, "MB");
        format_number(disk, sizeof disk, json_object_get(json, "disk_usage"), 1048576, "MB");
        table_row(&table,
                  (const char *[]){record_text(json, "name"), record_text(json, "namespace"),
                                   record_text(json, "engine"), record_text(json, "state"), load,
                                   memory, disk});
    }
    table_print(&table);
}

static int check_names(const struct arguments *arguments, const json_t *list)
{
    int exit_code = 0;
    for (size_t i = 0; i < arguments->count; i++) {
        bool found = false;
        struct error err;
        for (size_t j = 0; j < json_array_size(list) && !found; j++)
            found = strcmp(record_text(json_array_get(list, j), "name"), arguments->words[i]) == 0;
        if (found)
            continue;
        error_set(&err, ERROR_NOT_FOUND, "there is no running sandbox named %.80s",
                  arguments->words[i]);
        exit_code = report_error(&err, EXIT_SANDBOX);
    }
    return exit_code;
}

static void print(const struct server_info *info, json_t *list)
{
    cleanup_free char *url = server_url(info);
    if (!options.json) {
        printf("%s\nprocess %d%s\n", url, (int)info->pid, info->dev ? ", asks for no keys" : "");
        if (json_array_size(list) > 0)
            print_table(list);
        return;
    }
    json_t *json = json_pack("{s:s, s:i, s:b, s:s, s:O}", "url", url, "pid", (int)info->pid, "dev",
                             (int)info->dev, "log", info->log, "sandboxes", list);
    print_json(json);
    json_decref(json);
}

static int run(const struct arguments *arguments)
{
    struct error err;
    struct server_info info;
    if (options.namespace && sandbox_check_name("namespace", options.namespace, &err) < 0)
        return report_error(&err, EXIT_USAGE);
    if (server_find(&info, &err) < 0)
        return report_error(&err, EXIT_SANDBOX);
    json_t *list = look(arguments, &err);
    if (!list)
        return report_error(&err, EXIT_SANDBOX);
    print(&info, list);
    int exit_code = check_names(arguments, list);
    json_decref(list);
    return exit_code;
}

static const struct option option_table[] = {
    {0, "namespace", OPTION_TEXT, &options.namespace, "NS", "only sandboxes of this namespace"},
    {0, "json", OPTION_FLAG, &options.json, NULL, "the same as JSON"},
    {0},
};

const struct command server_status_command = {
    .name = "server status",
    .summary = "tell where the server listens and what its sandboxes use",
    .usage = "server status [NAME...] [OPTIONS]",
    .description =
        "Prints the address and the process of the server that runs in this home folder, and what\n"
        "the sandboxes of that folder use, or those that are named: percent of one processor "
        "since\n"
        "somebody last asked, memory of the host, and disk.",
    .examples = "  msb server status\n"
                "  msb server status box --json\n",
    .options = option_table,
    .run = run,
};
