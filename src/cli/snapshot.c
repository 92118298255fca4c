#include <inttypes.h>
#include <signal.h>
#include <stdio.h>

#include "base/cancel.h"
#include "cli/command.h"
#include "cli/exchange.h"
#include "cli/table.h"
#include "sandbox/config.h"
#include "sandbox/snapshot.h"

static struct {
    const char *namespace, *name;
    bool remove, json;
} options;

static const char *chosen_namespace(void)
{
    return options.namespace ? options.namespace : SANDBOX_DEFAULT_NAMESPACE;
}

static int remove_all(const struct arguments *arguments)
{
    struct error err;
    int exit_code = 0;
    for (size_t i = 0; i < arguments->count; i++) {
        if (snapshot_remove(chosen_namespace(), arguments->words[i], &err) < 0)
            exit_code = report_error(&err, EXIT_SANDBOX);
        else
            printf("%s\n", arguments->words[i]);
    }
    return exit_code;
}

static int make(const char *sandbox)
{
    struct error err;
    const char *name = options.name ? options.name : sandbox;
    cancel_install();
    int result = snapshot_make(chosen_namespace(), sandbox, name, &err);
    if (result < 0 && err.code == ERROR_CANCELLED)
        return 128 + (cancel_signal() ? cancel_signal() : SIGINT);
    if (result < 0)
        return report_error(&err, EXIT_SANDBOX);
    printf("%s\n", name);
    return 0;
}

static int run_snapshot(const struct arguments *arguments)
{
    struct error err;
    if (options.remove && arguments->count > 0 && !options.name)
        return remove_all(arguments);
    if (!options.remove && arguments->count == 1)
        return make(arguments->words[0]);
    error_set(&err, ERROR_INVALID, "which %s is meant?", options.remove ? "snapshot" : "sandbox");
    error_hint(&err, "msb snapshot NAME [--as SNAPSHOT], or msb snapshot --remove SNAPSHOT…");
    return report_error(&err, EXIT_USAGE);
}

/* ---- the list ------------------------------------------------------------------------------ */

static json_t *text_or_null(const char *text)
{
    return text ? json_string(text) : json_null();
}

static void show_json(const struct snapshot *all, size_t count)
{
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(
            list,
            json_pack("{s:s, s:s, s:o, s:o, s:o, s:I, s:I}", "namespace", all[i].namespace, "name",
                      all[i].name, "sandbox", text_or_null(all[i].sandbox), "image",
                      text_or_null(all[i].image), "engine", text_or_null(all[i].engine), "made_us",
                      (json_int_t)all[i].made_us, "bytes", (json_int_t)all[i].bytes));
    print_json(list);
    json_decref(list);
}

static void show_table(const struct snapshot *all, size_t count)
{
    struct table table;
    table_begin(&table, (const char *[]){"NAME", "NAMESPACE", "SANDBOX", "IMAGE", "ENGINE", "SIZE",
                                         "AGE", NULL});
    for (size_t i = 0; i < count; i++) {
        char size[24], age[32];
        snprintf(size, sizeof size, "%" PRIu64 " MB", (all[i].bytes + (1u << 20) - 1) >> 20);
        table_age(age, sizeof age, all[i].made_us);
        table_row(&table, (const char *[]){all[i].name, all[i].namespace,
                                           all[i].sandbox ? all[i].sandbox : "-",
                                           all[i].image ? all[i].image : "-",
                                           all[i].engine ? all[i].engine : "-", size, age});
    }
    table_print(&table);
}

static int run_snapshots(const struct arguments *arguments)
{
    (void)arguments;
    struct error err;
    struct snapshot *all;
    size_t count;
    if (options.namespace && sandbox_check_name("namespace", options.namespace, &err) < 0)
        return report_error(&err, EXIT_USAGE);
    snapshot_list(options.namespace, &all, &count);
    if (options.json)
        show_json(all, count);
    else
        show_table(all, count);
    snapshot_list_free(all, count);
    return 0;
}

static const struct option make_options[] = {
    {0, "as", OPTION_TEXT, &options.name, "SNAPSHOT", "its name (that of the sandbox)"},
    {0, "remove", OPTION_FLAG, &options.remove, NULL, "remove snapshots of these names"},
    {0, "namespace", OPTION_TEXT, &options.namespace, "NS", "the namespace (default)"},
    {0},
};

const struct command snapshot_command = {
    .name = "snapshot",
    .summary = "save a running sandbox to start from later",
    .usage = "snapshot NAME [--as SNAPSHOT] | --remove SNAPSHOT…",
    .description =
        "Writes a sandbox down as it is now; it goes on afterwards. msb restore starts from "
        "there,\n"
        "any number of times. A machine is saved with its memory: interpreters with their\n"
        "variables, running commands, files. Of a jail the files are saved.\n"
        "\n"
        "A snapshot of a machine fits the msb, kernel and QEMU it was made with.",
    .examples = "  msb snapshot box\n"
                "  msb snapshot box --as loaded\n"
                "  msb restore loaded box2\n"
                "  msb snapshot --remove loaded\n",
    .options = make_options,
    .run = run_snapshot,
};

static const struct option list_options[] = {
    {0, "namespace", OPTION_TEXT, &options.namespace, "NS", "only snapshots of this namespace"},
    {0, "json", OPTION_FLAG, &options.json, NULL, "as JSON"},
    {0},
};

const struct command snapshots_command = {
    .name = "snapshots",
    .summary = "list what msb snapshot has saved",
    .usage = "snapshots [OPTIONS]",
    .description = "Lists snapshots with the space that each takes for itself.",
    .examples = "  msb snapshots\n"
                "  msb snapshots --json\n",
    .options = list_options,
    .run = run_snapshots,
};
