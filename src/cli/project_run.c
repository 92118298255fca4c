#include <stdio.h>
#include <string.h>

#include "base/cancel.h"
#include "base/mem.h"
#include "base/progress.h"
#include "cli/command.h"
#include "cli/processes.h"
#include "cli/project_file.h"
#include "cli/project_start.h"
#include "cli/request.h"
#include "sandbox/kept.h"
#include "sandbox/launch.h"
#include "sandbox/state.h"

static struct {
    const char *file, *exec;
    bool detach, quiet, fresh;
    struct work_options work;
} options;

#define FRESH_OPTION                                                                               \
    {                                                                                              \
        0, "fresh", OPTION_FLAG, &options.fresh, NULL, "throw away the files that were kept"       \
    }

struct task {
    struct project project;
    const struct project_sandbox *sandbox;
    struct project_wish wish;
    char **command;
    bool is_asked; /* for more than what the sandbox is started for */
};

static int report(const struct error *err)
{
    return report_error(err, cancel_signal() ? 128 + cancel_signal() : EXIT_SANDBOX);
}

/* In one that runs already. */
static int join(struct task *task, int connection)
{
    struct error err;
    struct work work;
    if (!task->is_asked) {
        fd_close(connection);
        error_set(&err, ERROR_EXISTS, "the sandbox %s runs already", task->sandbox->name);
        error_hint(&err,
                   "\"msb log %s\" shows its output, \"msb run %s~SCRIPT\" and --exec run more in "
                   "it, \"msb down %s\" ends it",
                   task->sandbox->name, task->sandbox->name, task->sandbox->name);
        return report_error(&err, EXIT_FAILURE);
    }
    if (options.fresh) {
        fd_close(connection);
        error_set(&err, ERROR_BUSY, "the sandbox %s runs, and its files are in use",
                  task->sandbox->name);
        error_hint(&err, "end it first: msb down %s", task->sandbox->name);
        return report_error(&err, EXIT_FAILURE);
    }
    options.work.background = options.detach;
    if (work_build(&work, &options.work, task->command, NULL, NULL, &err) < 0) {
        fd_close(connection);
        return report_error(&err, EXIT_USAGE);
    }
    int result = options.detach ? processes_start(connection, &work.fields)
                                : attach_run(connection, &work.attach);
    work_free(&work);
    return result;
}

static int settle(const struct task *task, char **start, struct sandbox_config *config,
                  struct error *err)
{
    int result = project_settings(&task->project, task->sandbox, start, config, err);
    config->fresh = options.fresh;
    if (result == 0 && kept_check(config, err) < 0)
        result = project_wrong(&task->project, task->sandbox, err);
    return result;
}

static int start_detached(struct task *task)
{
    struct error err;
    struct fleet fleet = {0};
    struct fleet_member *member = fleet_add(&fleet, task->sandbox);
    if (settle(task, steal_pointer(&task->command), &member->config, &err) == 0)
        return project_start(&task->project, &fleet, -1);
    fleet_free(&fleet);
    return report(&err);
}

static int start_in_front(struct task *task, struct sandbox_config *config)
{
    struct error err;
    struct work work;
    if (settle(task, NULL, config, &err) < 0 || launch_prepare(config, &err) < 0)
        return report(&err);
    config->attached = true;
    project_tell_loss(config);
    if (work_build(&work, &options.work, task->command, NULL, NULL, &err) < 0)
        return report_error(&err, EXIT_USAGE);
    work.attach.starting = work.attach.stop_afterwards = work.attach.await_removal = true;
    state_sweep();
    int connection = launch_keeper(config, NULL, &err);
    int result = connection < 0 ? report(&err) : attach_run(connection, &work.attach);
    work_free(&work);
    return result;
}

static int run_task(struct task *task)
{
    struct error err;
    cleanup_free char *namespace = project_namespace(&task->project);
    int connection = state_connect(namespace, task->sandbox->name, &err);
    if (connection >= 0)
        return join(task, connection);
    if (err.code != ERROR_NOT_FOUND)
        return report(&err);
    if (options.detach)
        return start_detached(task);
    struct sandbox_config config = {0};
    int result = start_in_front(task, &config);
    sandbox_config_free(&config);
    return result;
}

static int with_project(struct task *task, const char *name,
                        char **(*choose)(struct task *task, struct error *err))
{
    struct error err;
    cancel_install();
    if (options.quiet)
        progress_silence();
    int result = project_open(options.file, &task->project, &err);
    task->sandbox = result == 0 ? project_sandbox(&task->project, name, &err) : NULL;
    task->command = task->sandbox ? choose(task, &err) : NULL;
    result = task->command ? run_task(task) : report_error(&err, EXIT_FAILURE);
    strv_free(task->command);
    project_free(&task->project);
    strv_free(options.work.env);
    return result;
}

static int refuse(const char *usage)
{
    struct error err;
    error_set(&err, ERROR_INVALID, "which sandbox of the project?");
    error_hint(&err, "%s", usage);
    return report_error(&err, EXIT_USAGE);
}

/* ---- run ------------------------------------------------------------------------------------- */

static char **choose_command(struct task *task, struct error *err)
{
    return project_command(&task->project, task->sandbox, &task->wish, err);
}

static int run(const struct arguments *arguments)
{
    if (arguments->count != 1)
        return refuse("msb run NAME, msb run NAME~SCRIPT");
    cleanup_free char *name = xstrdup(arguments->words[0]);
    char *tilde = strchr(name, '~');
    if (tilde)
        *tilde = '\0';
    struct task task = {.wish = {.exec = options.exec,
                                 .script = tilde ? tilde + 1 : NULL,
                                 .args = arguments->command},
                        .is_asked = tilde || options.exec};
    return with_project(&task, name, choose_command);
}

static const struct option run_options[] = {
    {'d', "detach", OPTION_FLAG, &options.detach, NULL, "return when it is ready; it goes on"},
    {'e', "exec", OPTION_TEXT, &options.exec, "COMMAND", "run this line instead"},
    {'x', "exec", OPTION_TEXT, &options.exec, "COMMAND", "the same"},
    {0, "env", OPTION_LIST, &options.work.env, "K=V", "an environment variable of the command"},
    {'t', "timeout", OPTION_SECONDS, &options.work.timeout_ms, "S",
     "end the command and all it started after S seconds"},
    {'T', "no-tty", OPTION_FLAG, &options.work.no_terminal, NULL,
     "no terminal inside, even if there is one here"},
    FRESH_OPTION,
    {'q', "quiet", OPTION_FLAG, &options.quiet, NULL, "show no progress"},
    PROJECT_OPTION(&options.file),
    {0},
};

const struct command run_command = {
    .name = "run",
    .alias = "r",
    .summary = "run a sandbox of the project, or a script of it",
    .usage = "run NAME[~SCRIPT] [OPTIONS] [-- ARGUMENT…]",
    .argument = ARGUMENT_PROJECT,
    .description =
        "Starts the sandbox NAME of the Sandboxfile and runs in it the first there is of: the "
        "line\n"
        "given with --exec, the script SCRIPT, the script \"start\", its command, its shell. The\n"
        "arguments go behind it. Streams, terminal and exit code are passed through as with\n"
        "msb exe, and the sandbox ends with the command. With --detach it goes on; msb log shows\n"
        "what it prints. What it writes is there again when it is started the next time; --fresh\n"
        "begins as the image is.\n"
        "\n"
        "In a sandbox that runs already a script or a line runs beside the rest. What NAME "
        "depends\n"
        "on is not started: msb up does that.",
    .examples = "  msb run web\n"
                "  msb run web~test -- --verbose\n"
                "  msb run web --exec 'ls -l'\n"
                "  msb run web --detach\n",
    .options = run_options,
    .run = run,
};

/* ---- shell ----------------------------------------------------------------------------------- */

static char **choose_shell(struct task *task, struct error *err)
{
    (void)err;
    char **command = NULL;
    strv_append(&command, xstrdup(task->sandbox->shell ? task->sandbox->shell : "sh"));
    strv_append_all(&command, task->wish.args);
    return command;
}

static int run_shell(const struct arguments *arguments)
{
    if (arguments->count != 1)
        return refuse("msb shell NAME");
    struct task task = {.wish.args = arguments->command, .is_asked = true};
    return with_project(&task, arguments->words[0], choose_shell);
}

static const struct option shell_options[] = {
    FRESH_OPTION,
    {'q', "quiet", OPTION_FLAG, &options.quiet, NULL, "show no progress"},
    PROJECT_OPTION(&options.file),
    {0},
};

const struct command shell_command = {
    .name = "shell",
    .summary = "open a shell in a sandbox of the project",
    .usage = "shell NAME [OPTIONS] [-- ARGUMENT…]",
    .argument = ARGUMENT_PROJECT,
    .description =
        "Opens the shell of the sandbox NAME (sh unless the Sandboxfile says otherwise)\n"
        "in the sandbox that runs. If none runs, one is started for the shell alone and\n"
        "ends with it.",
    .examples = "  msb shell web\n",
    .options = shell_options,
    .run = run_shell,
};
