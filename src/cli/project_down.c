#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cli/command.h"
#include "cli/project_file.h"
#include "cli/stop.h"
#include "sandbox/state.h"

static struct {
    const char *file;
} options;

/* 0: it did not run. */
static int stop_one(const char *namespace, const char *name, struct error *err)
{
    int result = stop_sandbox(namespace, name, err);
    if (result < 0 && err->code == ERROR_NOT_FOUND)
        return 0;
    if (result < 0)
        return error_wrap(err, "%s", name);
    printf("stopped %s\n", name);
    fflush(stdout);
    return 1;
}

/* Those of the file against the order of their start, then what runs and is not in it any more. */
static int stop_all(const struct project *project, const char *namespace, struct error *err)
{
    cleanup_free const struct project_sandbox **order = NULL;
    struct state_entry *entries = NULL;
    size_t count, entry_count = 0;
    int result = project_order(project, NULL, &order, &count, err);
    for (size_t i = count; result >= 0 && i > 0; i--)
        result = stop_one(namespace, order[i - 1]->name, err);
    if (result >= 0)
        result = state_list(namespace, &entries, &entry_count, err);
    for (size_t i = 0; result >= 0 && i < entry_count; i++)
        result = stop_one(namespace, entries[i].name, err);
    state_list_free(entries, entry_count);
    return result;
}

static int stop_named(const struct project *project, const char *namespace, char *const *names,
                      struct error *err)
{
    for (; *names; names++) {
        int result = sandbox_check_name("sandbox name", *names, err);
        if (result == 0)
            result = stop_one(namespace, *names, err);
        if (result < 0)
            return result;
        if (result == 0 && !project_sandbox(project, *names, err))
            return -1;
        if (result == 0)
            printf("%s does not run\n", *names);
    }
    return 0;
}

static int run(const struct arguments *arguments)
{
    struct error err;
    struct project project;
    int result = project_open(options.file, &project, &err);
    if (result == 0) {
        cleanup_free char *namespace = project_namespace(&project);
        result = arguments->count ? stop_named(&project, namespace, arguments->words, &err)
                                  : stop_all(&project, namespace, &err);
        state_sweep();
    }
    project_free(&project);
    return result < 0 ? report_error(&err, EXIT_FAILURE) : 0;
}

static const struct option option_table[] = {
    PROJECT_OPTION(&options.file),
    {0},
};

const struct command down_command = {
    .name = "down",
    .summary = "stop the sandboxes of the project",
    .usage = "down [NAME…] [OPTIONS]",
    .argument = ARGUMENT_PROJECT,
    .description =
        "Stops the sandboxes of the project, or those named: the ones that others depend\n"
        "on last. Sandboxes that were taken out of the Sandboxfile and still run are\n"
        "stopped too. Their logs stay until the next start, their files until msb clean.",
    .examples = "  msb down\n"
                "  msb down web\n",
    .options = option_table,
    .run = run,
};
