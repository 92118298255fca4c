#include "cli/stop.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>

#include "base/mem.h"
#include "cli/command.h"
#include "cli/query.h"
#include "sandbox/config.h"
#include "sandbox/state.h"

#define ANSWER_MS 10000

static struct {
    const char *namespace;
    bool all;
} options;

/* A keeper that does not answer is killed; its machine dies with it and a sweep does the rest. */
static int kill_keeper(const char *namespace, const char *name, struct error *err)
{
    struct ucred peer;
    socklen_t size = sizeof peer;
    cleanup_fd int fd = state_connect(namespace, name, err);
    if (fd < 0)
        return fd;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 || peer.pid <= 0 ||
        kill(peer.pid, SIGKILL) < 0)
        return error_errno(err, errno, "cannot kill the keeper of %s", name);
    fprintf(stderr, "msb: the keeper of %s did not answer and was killed\n", name);
    return 0;
}

int stop_sandbox(const char *namespace, const char *name, struct error *err)
{
    struct outcome outcome;
    int result = query_keeper(namespace, name, OP_STOP, true, ANSWER_MS, &outcome, err);
    outcome_free(&outcome);
    if (result < 0 && err->code == ERROR_TIMEOUT)
        result = kill_keeper(namespace, name, err);
    /* It ended by itself, or somebody else was faster. */
    return result < 0 && err->code == ERROR_UNAVAILABLE ? 0 : result;
}

static int stop(const char *namespace, const char *name, struct error *err)
{
    int result = sandbox_check_name("sandbox name", name, err);
    if (result == 0)
        result = stop_sandbox(namespace, name, err);
    if (result == 0)
        printf("%s\n", name);
    return result;
}

static int stop_all(const char *namespace)
{
    struct error err;
    struct state_entry *entries;
    size_t count;
    int exit_code = 0;
    if (state_list(namespace, &entries, &count, &err) < 0)
        return report_error(&err, EXIT_SANDBOX);
    for (size_t i = 0; i < count; i++) {
        if (stop(entries[i].namespace, entries[i].name, &err) < 0 && err.code != ERROR_NOT_FOUND)
            exit_code = report_error(&err, EXIT_SANDBOX);
    }
    state_list_free(entries, count);
    return exit_code;
}

static int run(const struct arguments *arguments)
{
    struct error err;
    const char *namespace = options.namespace ? options.namespace : SANDBOX_DEFAULT_NAMESPACE;
    int exit_code = 0;
    if (sandbox_check_name("namespace", namespace, &err) < 0)
        return report_error(&err, EXIT_USAGE);
    if (arguments->count == 0 && !options.all) {
        error_set(&err, ERROR_INVALID, "which sandbox is to be stopped?");
        error_hint(&err, "msb stop NAME, or msb stop --all; msb ps lists them");
        return report_error(&err, EXIT_USAGE);
    }
    if (options.all)
        exit_code = stop_all(options.namespace);
    for (size_t i = 0; i < arguments->count; i++) {
        if (stop(namespace, arguments->words[i], &err) < 0)
            exit_code = report_error(&err, EXIT_SANDBOX);
    }
    state_sweep();
    return exit_code;
}

static const struct option option_table[] = {
    {'a', "all", OPTION_FLAG, &options.all, NULL,
     "stop every sandbox (of the namespace, if given)"},
    {0, "namespace", OPTION_TEXT, &options.namespace, "NS", "their namespace (default)"},
    {0},
};

const struct command stop_command = {
    .name = "stop",
    .summary = "end running sandboxes",
    .usage = "stop NAME… | --all",
    .argument = ARGUMENT_SANDBOX,
    .description =
        "Ends sandboxes at once: their processes, memory and files are gone afterwards.\n"
        "Shared folders keep what was written to them.",
    .examples = "  msb stop box\n"
                "  msb stop --all\n",
    .options = option_table,
    .run = run,
};
