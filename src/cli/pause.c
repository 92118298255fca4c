#include <stdio.h>

#include "cli/command.h"
#include "cli/query.h"
#include "sandbox/config.h"

#define ANSWER_MS 30000

static struct {
    const char *namespace;
} options;

static int change(const char *namespace, const char *name, enum operation operation,
                  struct error *err)
{
    struct outcome outcome = {0};
    int result = sandbox_check_name("sandbox name", name, err);
    if (result == 0)
        result = query_keeper(namespace, name, operation, false, ANSWER_MS, &outcome, err);
    if (result == 0 && outcome.error.code != ERROR_NONE) {
        *err = outcome.error;
        result = -1;
    }
    outcome_free(&outcome);
    if (result == 0)
        printf("%s\n", name);
    return result;
}

static int change_all(const struct arguments *arguments, enum operation operation)
{
    struct error err;
    const char *namespace = options.namespace ? options.namespace : SANDBOX_DEFAULT_NAMESPACE;
    int exit_code = 0;
    if (sandbox_check_name("namespace", namespace, &err) < 0)
        return report_error(&err, EXIT_USAGE);
    if (arguments->count == 0) {
        error_set(&err, ERROR_INVALID, "which sandbox is meant?");
        error_hint(&err, "msb ps lists them");
        return report_error(&err, EXIT_USAGE);
    }
    for (size_t i = 0; i < arguments->count; i++) {
        if (change(namespace, arguments->words[i], operation, &err) < 0)
            exit_code = report_error(&err, EXIT_SANDBOX);
    }
    return exit_code;
}

static int run_pause(const struct arguments *arguments)
{
    return change_all(arguments, OP_PAUSE);
}

static int run_resume(const struct arguments *arguments)
{
    return change_all(arguments, OP_RESUME);
}

static const struct option option_table[] = {
    {0, "namespace", OPTION_TEXT, &options.namespace, "NS", "their namespace (default)"},
    {0},
};

const struct command pause_command = {
    .name = "pause",
    .summary = "let sandboxes stand still",
    .usage = "pause NAME…",
    .argument = ARGUMENT_SANDBOX,
    .description = "Stops everything in a sandbox where it is. It keeps its memory and takes no\n"
                   "processor time; its idle time and its lifetime go on.",
    .examples = "  msb pause box\n",
    .options = option_table,
    .run = run_pause,
};

const struct command resume_command = {
    .name = "resume",
    .summary = "let paused sandboxes go on",
    .usage = "resume NAME…",
    .argument = ARGUMENT_SANDBOX,
    .description = "Lets a sandbox go on where msb pause has stopped it, with the right time.",
    .examples = "  msb resume box\n",
    .options = option_table,
    .run = run_resume,
};
