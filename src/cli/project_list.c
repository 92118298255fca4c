#include <jansson.h>
#include <stdio.h>

#include "base/mem.h"
#include "cli/command.h"
#include "cli/exchange.h"
#include "cli/project_file.h"
#include "cli/table.h"

static struct {
    const char *file;
    bool json;
} options;

static json_t *list_json(char *const *list)
{
    json_t *json = json_array();
    for (size_t i = 0; list && list[i]; i++)
        json_array_append_new(json, json_string(list[i]));
    return json;
}

static json_t *scripts_json(const struct project_sandbox *sandbox)
{
    json_t *json = json_object();
    for (size_t i = 0; i < sandbox->script_count; i++)
        json_object_set_new(json, sandbox->scripts[i].name, json_string(sandbox->scripts[i].text));
    return json;
}

static json_t *describe(const struct project_sandbox *sandbox)
{
    return json_pack(
        "{s:s, s:s, s:I, s:I, s:I, s:s?, s:s?, s:s?, s:s?, s:s?, s:o, s:o, s:o, s:o, "
        "s:o, s:o, s:o}",
        "name", sandbox->name, "image", sandbox->image, "memory_mb",
        (json_int_t)(sandbox->memory_mb ? sandbox->memory_mb : SANDBOX_DEFAULT_MEMORY_MB), "cpus",
        (json_int_t)(sandbox->cpus ? sandbox->cpus : SANDBOX_DEFAULT_CPUS), "disk_mb",
        (json_int_t)(sandbox->disk_mb ? sandbox->disk_mb : SANDBOX_DEFAULT_DISK_MB), "workdir",
        sandbox->workdir, "shell", sandbox->shell, "user", sandbox->user, "engine", sandbox->engine,
        "scope", sandbox->scope, "volumes", list_json(sandbox->volumes), "ports",
        list_json(sandbox->ports), "envs", list_json(sandbox->envs), "env_files",
        list_json(sandbox->env_files), "depends_on", list_json(sandbox->depends_on), "command",
        list_json(sandbox->command), "scripts", scripts_json(sandbox));
}

static void print_all_json(const struct project *project)
{
    json_t *list = json_array();
    for (size_t i = 0; i < project->count; i++)
        json_array_append_new(list, describe(&project->sandboxes[i]));
    print_json(list);
    json_decref(list);
}

/* For free(). */
static char *join(char *const *list)
{
    cleanup_buf struct buf text = {0};
    for (size_t i = 0; list && list[i]; i++)
        buf_printf(&text, "%s%s", i ? " " : "", list[i]);
    return xstrdup(buf_length(&text) ? buf_text(&text) : "-");
}

static char *join_scripts(const struct project_sandbox *sandbox)
{
    cleanup_buf struct buf text = {0};
    for (size_t i = 0; i < sandbox->script_count; i++)
        buf_printf(&text, "%s%s", i ? " " : "", sandbox->scripts[i].name);
    return xstrdup(buf_length(&text) ? buf_text(&text) : "-");
}

static void print_table(const struct project *project)
{
    struct table table;
    table_begin(&table, (const char *[]){"NAME", "IMAGE", "CPUS", "MEMORY", "PORTS", "DEPENDS ON",
                                         "SCRIPTS", NULL});
    for (size_t i = 0; i < project->count; i++) {
        const struct project_sandbox *sandbox = &project->sandboxes[i];
        char cpus[16], memory[24];
        snprintf(cpus, sizeof cpus, "%u", sandbox->cpus ? sandbox->cpus : SANDBOX_DEFAULT_CPUS);
        snprintf(memory, sizeof memory, "%u MB",
                 sandbox->memory_mb ? sandbox->memory_mb : SANDBOX_DEFAULT_MEMORY_MB);
        cleanup_free char *ports = join(sandbox->ports), *needs = join(sandbox->depends_on),
                          *scripts = join_scripts(sandbox);
        table_row(&table, (const char *[]){sandbox->name, sandbox->image, cpus, memory, ports,
                                           needs, scripts});
    }
    table_print(&table);
}

static int run(const struct arguments *arguments)
{
    (void)arguments;
    struct error err;
    struct project project;
    int result = project_open(options.file, &project, &err);
    if (result < 0)
        result = report_error(&err, EXIT_FAILURE);
    else if (options.json)
        print_all_json(&project);
    else
        print_table(&project);
    project_free(&project);
    return result;
}

static const struct option option_table[] = {
    {0, "json", OPTION_FLAG, &options.json, NULL, "all settings, as JSON"},
    PROJECT_OPTION(&options.file),
    {0},
};

const struct command list_command = {
    .name = "list",
    .summary = "list the sandboxes of the project",
    .usage = "list [OPTIONS]",
    .description = "Lists the sandboxes that the Sandboxfile names, whether they run or not.\n"
                   "\"msb status\" tells which of them run.",
    .examples = "  msb list\n"
                "  msb list --json\n",
    .options = option_table,
    .run = run,
};
