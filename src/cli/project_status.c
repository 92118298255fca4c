#include <jansson.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/mem.h"
#include "cli/command.h"
#include "cli/exchange.h"
#include "cli/project_file.h"
#include "cli/table.h"
#include "cli/usage.h"
#include "sandbox/kept.h"
#include "sandbox/state.h"

#define ANSWER_MS 2000
#define WATCH_MS 2000

static struct {
    const char *file;
    bool json, watch;
} options;

/* ---- what there is to tell ------------------------------------------------------------------- */

static json_t *describe(const char *namespace, const char *name, bool in_file)
{
    struct error err;
    json_t *json = usage_of_sandbox(namespace, name, true, ANSWER_MS, &err);
    if (!json)
        json = json_pack("{s:s, s:s, s:s}", "namespace", namespace, "name", name, "state",
                         err.code == ERROR_NOT_FOUND ? "stopped" : "unresponsive");
    json_object_set_new(json, "in_file", json_boolean(in_file));
    json_object_set_new(json, "kept_bytes", json_integer((json_int_t)kept_bytes(namespace, name)));
    return json;
}

static bool is_wanted(const char *name, char *const *names)
{
    return !names[0] || strv_contains(names, name);
}

static bool is_told(const json_t *list, const char *name)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        if (strcmp(record_text(json_array_get(list, i), "name"), name) == 0)
            return true;
    }
    return false;
}

/* Those of the file in its order, then those that run and are not in it any more. */
static json_t *gather(const struct project *project, char *const *names, struct error *err)
{
    cleanup_free char *namespace = project_namespace(project);
    struct state_entry *entries;
    size_t count;
    if (state_list(namespace, &entries, &count, err) < 0)
        return NULL;
    json_t *list = json_array();
    for (size_t i = 0; i < project->count; i++) {
        if (is_wanted(project->sandboxes[i].name, names))
            json_array_append_new(list, describe(namespace, project->sandboxes[i].name, true));
    }
    for (size_t i = 0; i < count; i++) {
        if (is_wanted(entries[i].name, names) && !is_told(list, entries[i].name))
            json_array_append_new(list, describe(namespace, entries[i].name, false));
    }
    state_list_free(entries, count);
    return list;
}

/* ---- the table ------------------------------------------------------------------------------- */

static void format_state(char *out, size_t size, const json_t *json)
{
    const char *state = record_text(json, "state");
    const char *note = json_is_true(json_object_get(json, "in_file")) ? "" : ", not in the file";
    const char *verdict = record_text(json, "start_verdict");
    if (strcmp(verdict, "exited") == 0)
        snprintf(out, size, "%s, ended with %lld%s", state, record_number(json, "start_exit_code"),
                 note);
    else if (strcmp(verdict, "signaled") == 0)
        snprintf(out, size, "%s, ended by signal %lld%s", state,
                 record_number(json, "start_signal"), note);
    else
        snprintf(out, size, "%s%s", state, note);
}

static void format_size(char *out, size_t size, const json_t *inside, const char *used,
                        const char *total)
{
    if (inside)
        snprintf(out, size, "%.0f of %.0f MB",
                 json_number_value(json_object_get(inside, used)) / 1048576,
                 json_number_value(json_object_get(inside, total)) / 1048576);
    else
        snprintf(out, size, "-");
}

static void add_row(struct table *table, const json_t *json)
{
    const json_t *inside = json_object_get(json, "inside");
    const json_t *load = json_object_get(json, "cpu_percent");
    char state[80], cpu[32] = "-", memory[48], disk[48], age[32];
    format_state(state, sizeof state, json);
    if (load)
        snprintf(cpu, sizeof cpu, "%.0f %%", json_number_value(load));
    format_size(memory, sizeof memory, inside, "memory_used", "memory_total");
    format_size(disk, sizeof disk, inside, "disk_used", "disk_total");
    if (!inside && record_number(json, "kept_bytes"))
        table_size(disk, sizeof disk, (uint64_t)record_number(json, "kept_bytes"));
    table_age(age, sizeof age, (uint64_t)record_number(json, "started_us"));
    cleanup_free char *ports = usage_ports(json);
    table_row(table,
              (const char *[]){record_text(json, "name"), state, cpu, memory, disk, age, ports});
}

static void print_table(const json_t *list)
{
    struct table table;
    table_begin(&table,
                (const char *[]){"NAME", "STATE", "CPU", "MEMORY", "DISK", "AGE", "PORTS", NULL});
    for (size_t i = 0; i < json_array_size(list); i++)
        add_row(&table, json_array_get(list, i));
    table_print(&table);
}

static int show(const struct project *project, char *const *names)
{
    struct error err;
    json_t *list = gather(project, names, &err);
    if (!list)
        return report_error(&err, EXIT_SANDBOX);
    if (options.json) {
        print_json(list);
    } else {
        print_table(list);
    }
    json_decref(list);
    return 0;
}

/* ---- live ------------------------------------------------------------------------------------ */

/* False when somebody interrupts. */
static bool wait_a_while(void)
{
    struct pollfd wait = {.fd = cancel_fd(), .events = POLLIN};
    return poll(&wait, 1, WATCH_MS) == 0;
}

static int watch(const struct project *project, char *const *names)
{
    cancel_install();
    int result;
    do {
        if (isatty(STDOUT_FILENO))
            printf("\033[H\033[2J");
        result = show(project, names);
        fflush(stdout);
    } while (result == 0 && wait_a_while());
    return result;
}

static int run(const struct arguments *arguments)
{
    struct error err;
    struct project project;
    int result = project_open(options.file, &project, &err);
    for (size_t i = 0; result == 0 && i < arguments->count; i++)
        result = project_sandbox(&project, arguments->words[i], &err) ? 0 : -1;
    if (result < 0)
        result = report_error(&err, EXIT_FAILURE);
    else
        result =
            options.watch ? watch(&project, arguments->words) : show(&project, arguments->words);
    project_free(&project);
    return result;
}

static const struct option option_table[] = {
    {'w', "watch", OPTION_FLAG, &options.watch, NULL, "anew every two seconds, until Ctrl-C"},
    {0, "json", OPTION_FLAG, &options.json, NULL, "everything there is to know, as JSON"},
    PROJECT_OPTION(&options.file),
    {0},
};

const struct command status_command = {
    .name = "status",
    .alias = "stat",
    .summary = "tell which sandboxes of the project run and what they use",
    .usage = "status [NAME…] [OPTIONS]",
    .argument = ARGUMENT_PROJECT,
    .description =
        "Tells for each sandbox of the project whether it runs, how its start command\n"
        "ended if it did, and what it uses. The load of the processor is that since\n"
        "somebody last asked, in percent of one processor. Of one that is stopped the disk\n"
        "is what its kept files take.",
    .examples = "  msb status\n"
                "  msb status --watch\n"
                "  msb status web --json\n",
    .options = option_table,
    .run = run,
};
