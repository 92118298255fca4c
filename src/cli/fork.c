#include <jansson.h>
#include <stdio.h>

#include "base/mem.h"
#include "cli/command.h"
#include "cli/query.h"
#include "engine/engine.h"
#include "sandbox/config.h"
#include "sandbox/launch.h"
#include "sandbox/state.h"

static struct {
    const char *namespace;
    bool quiet;
} options;

/* What a user might take for granted and does not get. */
static void warn(const char *status)
{
    json_t *json = status ? json_loads(status, 0, NULL) : NULL;
    const char *name = json_string_value(json_object_get(json, "engine"));
    const struct engine *engine = name ? engine_find(name) : NULL;
    if (engine && !engine->saves_memory)
        fprintf(stderr,
                "msb: the files were copied; what ran was not: engine %s cannot copy memory\n",
                name);
    json_decref(json);
}

static int start_copy(const struct launch_copy *copy, struct error *err)
{
    state_sweep();
    cleanup_fd int connection = launch_copy(copy, err);
    if (connection < 0)
        return connection;
    struct outcome outcome = {0};
    int result = query_started(connection, &outcome, err);
    if (result == 0 && outcome.error.code != ERROR_NONE) {
        *err = outcome.error;
        result = -1;
    }
    if (result == 0 && !options.quiet)
        warn(outcome.status);
    outcome_free(&outcome);
    return result;
}

static int start_and_tell(struct launch_copy *copy)
{
    struct error err;
    copy->namespace = options.namespace ? options.namespace : SANDBOX_DEFAULT_NAMESPACE;
    if (start_copy(copy, &err) < 0)
        return report_error(&err, EXIT_SANDBOX);
    printf("%s\n", copy->name);
    return 0;
}

static int run_fork(const struct arguments *arguments)
{
    struct error err;
    if (arguments->count == 2) {
        struct launch_copy copy = {.fork_of = arguments->words[0], .name = arguments->words[1]};
        return start_and_tell(&copy);
    }
    error_set(&err, ERROR_INVALID, "msb fork takes the sandbox and a name for its copy");
    error_hint(&err, "msb fork NAME NEW");
    return report_error(&err, EXIT_USAGE);
}

static int run_restore(const struct arguments *arguments)
{
    struct error err;
    if (arguments->count == 1 || arguments->count == 2) {
        const char *snapshot = arguments->words[0];
        const char *name = arguments->count == 2 ? arguments->words[1] : snapshot;
        struct launch_copy copy = {.snapshot = snapshot, .name = name};
        return start_and_tell(&copy);
    }
    error_set(&err, ERROR_INVALID, "which snapshot is to be started?");
    error_hint(&err, "msb restore SNAPSHOT [NAME]; msb snapshots lists them");
    return report_error(&err, EXIT_USAGE);
}

static const struct option option_table[] = {
    {0, "namespace", OPTION_TEXT, &options.namespace, "NS", "the namespace of both (default)"},
    {'q', "quiet", OPTION_FLAG, &options.quiet, NULL, "do not tell what is not copied"},
    {0},
};

const struct command fork_command = {
    .name = "fork",
    .summary = "make a copy of a running sandbox",
    .usage = "fork NAME NEW",
    .argument = ARGUMENT_SANDBOX,
    .description =
        "Makes NEW, a sandbox that goes on from where NAME is now. A machine is copied with its\n"
        "memory: interpreters with their variables, running commands, files. It stands still\n"
        "while what it has written is copied. The copy has its own name, random numbers and\n"
        "settings of the original but for --port: the host's ports stay with the original.\n"
        "Commands that somebody waits for go on in both; in the copy nobody sees their output.\n"
        "Of a jail only the files are copied: what runs in it is not in the copy.",
    .examples = "  msb exe python --name box --detach -c 'x = 42'\n"
                "  msb fork box twin\n"
                "  msb exec twin -c 'print(x)'\n",
    .options = option_table,
    .run = run_fork,
};

const struct command restore_command = {
    .name = "restore",
    .summary = "start a sandbox from a snapshot",
    .usage = "restore SNAPSHOT [NAME]",
    .argument = ARGUMENT_SNAPSHOT,
    .description =
        "Starts a sandbox (named like the snapshot, unless NAME is given) that goes on from\n"
        "where the snapshot was made, with the settings of the original but for --port.\n"
        "The snapshot stays as it is. msb exec works in the sandbox, msb stop ends it.",
    .examples = "  msb restore loaded\n"
                "  msb restore loaded box2\n",
    .options = option_table,
    .run = run_restore,
};
