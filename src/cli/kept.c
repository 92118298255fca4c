#include <jansson.h>
#include <stdio.h>

#include "base/mem.h"
#include "cli/command.h"
#include "cli/exchange.h"
#include "cli/table.h"
#include "sandbox/config.h"
#include "sandbox/kept.h"

static struct {
    const char *namespace;
    bool remove, json;
} options;

static json_t *text_or_null(const char *text)
{
    return text ? json_string(text) : json_null();
}

static void show_json(const struct kept *all, size_t count)
{
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(
            list,
            json_pack("{s:s, s:s, s:o, s:o, s:I, s:I, s:I}", "namespace", all[i].namespace, "name",
                      all[i].name, "image", text_or_null(all[i].image), "engine",
                      text_or_null(all[i].engine), "disk_mb", (json_int_t)all[i].disk_mb, "used_us",
                      (json_int_t)all[i].used_us, "bytes", (json_int_t)all[i].bytes));
    print_json(list);
    json_decref(list);
}

static void show_table(const struct kept *all, size_t count)
{
    struct table table;
    table_begin(&table,
                (const char *[]){"NAME", "NAMESPACE", "IMAGE", "ENGINE", "SIZE", "USED", NULL});
    for (size_t i = 0; i < count; i++) {
        char size[24], age[32];
        table_size(size, sizeof size, all[i].bytes);
        table_age(age, sizeof age, all[i].used_us);
        table_row(&table,
                  (const char *[]){all[i].name, all[i].namespace, all[i].image ? all[i].image : "-",
                                   all[i].engine ? all[i].engine : "-", size, age});
    }
    table_print(&table);
}

static int remove_one(const char *name, struct error *err)
{
    const char *namespace = options.namespace ? options.namespace : SANDBOX_DEFAULT_NAMESPACE;
    int result = sandbox_check_name("sandbox name", name, err);
    if (result == 0)
        result = kept_remove(namespace, name, err);
    if (result < 0 && err->code == ERROR_NOT_FOUND)
        error_hint(err, "\"msb kept\" lists those there are; --namespace NS for another namespace");
    if (result < 0 && err->code == ERROR_BUSY)
        error_hint(err, "end it first: msb stop %s --namespace %s", name, namespace);
    return result;
}

static int remove_all(const struct arguments *arguments)
{
    struct error err;
    int exit_code = 0;
    for (size_t i = 0; i < arguments->count; i++) {
        if (remove_one(arguments->words[i], &err) < 0)
            exit_code = report_error(&err, EXIT_FAILURE);
        else
            printf("%s\n", arguments->words[i]);
    }
    return exit_code;
}

static int run(const struct arguments *arguments)
{
    struct error err;
    struct kept *all;
    size_t count;
    if (options.remove != (arguments->count > 0)) {
        error_set(&err, ERROR_INVALID, "which files are meant?");
        error_hint(&err, "msb kept lists them, msb kept --remove NAME… removes them");
        return report_error(&err, EXIT_USAGE);
    }
    if (options.namespace && sandbox_check_name("namespace", options.namespace, &err) < 0)
        return report_error(&err, EXIT_USAGE);
    if (options.remove)
        return remove_all(arguments);
    kept_list(options.namespace, &all, &count);
    if (options.json)
        show_json(all, count);
    else
        show_table(all, count);
    kept_list_free(all, count);
    return 0;
}

static const struct option option_table[] = {
    {0, "remove", OPTION_FLAG, &options.remove, NULL, "remove the files of these sandboxes"},
    {0, "namespace", OPTION_TEXT, &options.namespace, "NS",
     "only of this namespace (to remove: default)"},
    {0, "json", OPTION_FLAG, &options.json, NULL, "as JSON"},
    {0},
};

const struct command kept_command = {
    .name = "kept",
    .summary = "list and remove files that sandboxes have left",
    .usage = "kept [OPTIONS] | --remove NAME…",
    .argument = ARGUMENT_KEPT,
    .description =
        "Lists the sandboxes whose files are on disk for their next start, those of projects and\n"
        "those of msb exe --keep, whether they run or not, with the space that they take. What is\n"
        "removed cannot be brought back.",
    .examples = "  msb kept\n"
                "  msb kept --json\n"
                "  msb kept --remove box\n",
    .options = option_table,
    .run = run,
};
