#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/cancel.h"
#include "base/file.h"
#include "base/mem.h"
#include "cli/command.h"
#include "cli/follow.h"
#include "cli/project_file.h"
#include "sandbox/state.h"

static struct {
    const char *file;
    bool follow;
    unsigned tail;
} options = {.tail = FOLLOW_ALL};

static int find_log(const struct project *project, const char *namespace, const char *name,
                    char **folder, struct error *err)
{
    int result = sandbox_check_name("sandbox name", name, err);
    if (result < 0)
        return result;
    *folder = project_log_folder(namespace, name);
    if (file_exists(*folder))
        return 0;
    if (!project_sandbox(project, name, err))
        return -1;
    error_set(err, ERROR_NOT_FOUND, "the sandbox %s has not run yet", name);
    return error_hint(err, "\"msb up %s\" starts it", name);
}

static int show(const struct project *project, const char *name, struct error *err)
{
    cleanup_free char *namespace = project_namespace(project), *folder = NULL;
    int result = find_log(project, namespace, name, &folder, err);
    if (result < 0)
        return result;
    cleanup_fd int connection = options.follow ? state_connect(namespace, name, err) : -1;
    if (connection < 0)
        return follow_print(folder, options.tail, err);
    cancel_install();
    return follow_run(folder, options.tail, connection, err);
}

static int run(const struct arguments *arguments)
{
    struct error err;
    struct project project;
    if (arguments->count != 1) {
        error_set(&err, ERROR_INVALID, "msb log takes the name of one sandbox");
        error_hint(&err, "msb log NAME --follow");
        return report_error(&err, EXIT_USAGE);
    }
    int result = project_open(options.file, &project, &err);
    if (result == 0)
        result = show(&project, arguments->words[0], &err);
    project_free(&project);
    if (result < 0)
        return report_error(&err, EXIT_FAILURE);
    return cancel_signal() ? 128 + cancel_signal() : 0;
}

static const struct option option_table[] = {
    {'f', "follow", OPTION_FLAG, &options.follow, NULL,
     "go on with what is added, until the sandbox ends or Ctrl-C is typed"},
    {'t', "tail", OPTION_COUNT, &options.tail, "N", "only the last N lines"},
    {0, "file", OPTION_TEXT, &options.file, "FILE", "the Sandboxfile, or its folder (that here)"},
    {0},
};

const struct command log_command = {
    .name = "log",
    .summary = "show what a sandbox of the project has printed",
    .usage = "log NAME [OPTIONS]",
    .argument = ARGUMENT_PROJECT,
    .description = "Shows what commands in the sandbox NAME printed in its present run, or in the\n"
                   "last one: the latest 8 to 16 MB of it.",
    .examples = "  msb log web --tail 20 --follow\n",
    .options = option_table,
    .run = run,
};
