#include <stdio.h>

#include "base/file.h"
#include "base/home.h"
#include "base/mem.h"
#include "cli/command.h"
#include "cli/project_file.h"
#include "cli/stop.h"
#include "cli/table.h"
#include "sandbox/kept.h"
#include "sandbox/state.h"

static struct {
    const char *file;
    bool all, force;
} options;

/* Everything that outlives a sandbox. */
static int forget(const char *namespace, const char *name, struct error *err)
{
    char size[24] = "";
    cleanup_free char *logs = project_log_folder(namespace, name);
    bool has_logs = file_exists(logs);
    uint64_t bytes = kept_bytes(namespace, name);
    int result = bytes ? kept_remove(namespace, name, err) : 0;
    if (result == 0)
        result = folder_remove(logs, err);
    if (result < 0 || !(bytes || has_logs))
        return result;
    if (bytes)
        table_size(size, sizeof size, bytes);
    printf("cleaned %s: %s%s%s%s\n", name, has_logs ? "its log" : "",
           has_logs && bytes ? " and " : "", size, bytes ? " of files" : "");
    return 0;
}

static int clean(const char *namespace, const char *name, struct error *err)
{
    json_t *running = state_settings(namespace, name);
    bool runs = running != NULL;
    json_decref(running);
    if (runs && !options.force) {
        error_set(err, ERROR_BUSY, "the sandbox %s runs", name);
        return error_hint(err, "end it with \"msb down %s\", or use --force", name);
    }
    if (runs && stop_sandbox(namespace, name, err) < 0 && err->code != ERROR_NOT_FOUND)
        return error_wrap(err, "%s", name);
    return forget(namespace, name, err);
}

/* Those that the file does not name any more. */
static int clean_strays(const char *namespace, struct error *err)
{
    struct kept *strays;
    size_t count;
    int result = 0;
    kept_list(namespace, &strays, &count);
    for (size_t i = 0; result == 0 && i < count; i++)
        result = clean(namespace, strays[i].name, err);
    kept_list_free(strays, count);
    cleanup_free char *logs = home_path("logs/%s", namespace);
    return result < 0 ? result : folder_remove(logs, err);
}

static int clean_all(const struct project *project, const char *namespace, struct error *err)
{
    struct state_entry *entries;
    size_t count;
    int result = state_list(namespace, &entries, &count, err);
    if (result < 0)
        return result;
    for (size_t i = 0; result == 0 && i < count; i++)
        result = clean(namespace, entries[i].name, err);
    state_list_free(entries, count);
    for (size_t i = 0; result == 0 && i < project->count; i++)
        result = clean(namespace, project->sandboxes[i].name, err);
    return result < 0 ? result : clean_strays(namespace, err);
}

/* One that was taken out of the file may have left something. */
static bool is_known(const struct project *project, const char *namespace, const char *name,
                     struct error *err)
{
    cleanup_free char *logs = project_log_folder(namespace, name);
    return sandbox_check_name("sandbox name", name, err) == 0 &&
           (kept_bytes(namespace, name) || file_exists(logs) ||
            project_sandbox(project, name, err));
}

static int clean_named(const struct project *project, const char *namespace, char *const *names,
                       struct error *err)
{
    int result = 0;
    for (; result == 0 && *names; names++)
        result = is_known(project, namespace, *names, err) ? clean(namespace, *names, err) : -1;
    return result;
}

static int run(const struct arguments *arguments)
{
    struct error err;
    struct project project;
    if ((arguments->count == 0) != options.all) {
        error_set(&err, ERROR_INVALID, "which sandboxes are to be cleaned?");
        error_hint(&err, "give their names, or --all and no name");
        return report_error(&err, EXIT_USAGE);
    }
    int result = project_open(options.file, &project, &err);
    if (result == 0) {
        cleanup_free char *namespace = project_namespace(&project);
        result = options.all ? clean_all(&project, namespace, &err)
                             : clean_named(&project, namespace, arguments->words, &err);
    }
    project_free(&project);
    return result < 0 ? report_error(&err, EXIT_FAILURE) : 0;
}

static const struct option option_table[] = {
    {'a', "all", OPTION_FLAG, &options.all, NULL, "of every sandbox of the project"},
    {0, "force", OPTION_FLAG, &options.force, NULL, "stop those that run first"},
    PROJECT_OPTION(&options.file),
    {0},
};

const struct command clean_command = {
    .name = "clean",
    .summary = "remove what ended sandboxes of the project have left",
    .usage = "clean NAME… | --all",
    .argument = ARGUMENT_PROJECT,
    .description =
        "Removes what is kept of sandboxes after their end: the files that they have written and\n"
        "their logs. The Sandboxfile and shared folders stay as they are.",
    .examples = "  msb clean web\n"
                "  msb clean --all --force\n",
    .options = option_table,
    .run = run,
};
