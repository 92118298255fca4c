#include <string.h>

#include "base/mem.h"
#include "cli/command.h"
#include "cli/request.h"
#include "sandbox/config.h"
#include "sandbox/state.h"

static struct {
    const char *namespace, *language;
    struct work_options work;
} options;

static int run(const struct arguments *arguments)
{
    struct error err;
    if (arguments->count != 1) {
        error_set(&err, ERROR_INVALID, "msb exec takes the name of one sandbox");
        error_hint(&err, "msb exec NAME -- COMMAND…");
        return report_error(&err, EXIT_USAGE);
    }
    const char *namespace = options.namespace ? options.namespace : SANDBOX_DEFAULT_NAMESPACE;
    const char *name = arguments->words[0];
    struct work work;
    if (sandbox_check_name("namespace", namespace, &err) < 0 ||
        sandbox_check_name("sandbox name", name, &err) < 0 ||
        work_build(&work, &options.work, arguments->command, NULL,
                   options.language ? options.language : "python", &err) < 0)
        return report_error(&err, EXIT_USAGE);
    int connection = state_connect(namespace, name, &err);
    int result =
        connection < 0 ? report_error(&err, EXIT_SANDBOX) : attach_run(connection, &work.attach);
    work_free(&work);
    strv_free(options.work.env);
    return result;
}

static const struct option option_table[] = {
    {'c', "code", OPTION_TEXT, &options.work.code, "CODE",
     "run CODE in the warm interpreter; - reads it from stdin"},
    {'l', "language", OPTION_TEXT, &options.language, "LANG",
     "of the code: python or node (python)"},
    {'e', "env", OPTION_LIST, &options.work.env, "K=V", "an environment variable of the command"},
    {'w', "workdir", OPTION_TEXT, &options.work.workdir, "DIR", "where the command starts"},
    {'u', "user", OPTION_TEXT, &options.work.user, "USER", "who runs the command"},
    {'t', "timeout", OPTION_SECONDS, &options.work.timeout_ms, "S",
     "end the command and all it started after S seconds"},
    {0, "namespace", OPTION_TEXT, &options.namespace, "NS", "the sandbox's namespace (default)"},
    {'T', "no-tty", OPTION_FLAG, &options.work.no_terminal, NULL,
     "no terminal inside, even if there is one here"},
    {0},
};

const struct command exec_command = {
    .name = "exec",
    .summary = "run a command or code in a running sandbox",
    .usage = "exec NAME [OPTIONS] [-- COMMAND…]",
    .description = "Runs COMMAND in the sandbox NAME, which goes on afterwards. Variables and "
                   "files of earlier\n"
                   "calls are still there. Streams, terminal and exit codes are as with msb exe.",
    .examples = "  msb exe python --name box --detach -c 'x = 6'\n"
                "  msb exec box -c 'print(x*7)'\n"
                "  msb exec box -- bash\n"
                "  msb stop box\n",
    .options = option_table,
    .run = run,
};
