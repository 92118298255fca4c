#include <string.h>

#include "base/mem.h"
#include "cli/command.h"
#include "cli/processes.h"
#include "cli/request.h"
#include "sandbox/config.h"
#include "sandbox/requests.h"
#include "sandbox/state.h"

static struct {
    const char *namespace, *language;
    unsigned attach;
    bool list;
    struct work_options work;
} options;

static int refuse(const char *message, const char *hint)
{
    struct error err;
    error_set(&err, ERROR_INVALID, "%s", message);
    error_hint(&err, "%s", hint);
    return report_error(&err, EXIT_USAGE);
}

/* 0, or the exit code for a combination that makes no sense. */
static int check_options(const struct arguments *arguments)
{
    bool has_work = options.work.code || (arguments->command && arguments->command[0]);
    if (arguments->count != 1)
        return refuse("msb exec takes the name of one sandbox", "msb exec NAME -- COMMAND…");
    if (options.work.json && (options.work.background || options.attach))
        return refuse("--json is for --list and for what ends by itself",
                      "msb exec NAME --list --json");
    if ((options.list || options.attach) && (has_work || options.work.background))
        return refuse("--list and --attach start nothing: give no command with them",
                      "msb exec NAME --attach PID");
    if (options.list && options.attach)
        return refuse("give either --list or --attach", "msb exec NAME --attach PID");
    if (options.work.background && options.work.code)
        return refuse("--background is for commands, not for --code",
                      "msb exec NAME --background -- python3 FILE");
    return 0;
}

static int join(int connection)
{
    cleanup_buf struct buf fields = {0};
    process_request_fields(&fields, &(struct process_request){.pid = options.attach});
    const struct attach_request request = {
        .operation = OP_PROCESS_ATTACH,
        .fields = &fields,
        .terminal = !options.work.no_terminal && attach_has_terminal(),
    };
    return attach_run(connection, &request);
}

static int work_in(const char *namespace, const char *name, char *const *command)
{
    struct error err;
    struct work work;
    const char *language = options.language || options.work.context ? options.language : "python";
    if (work_build(&work, &options.work, command, NULL, language, &err) < 0)
        return report_error(&err, EXIT_USAGE);
    int connection = state_connect(namespace, name, &err);
    int result = connection < 0            ? report_error(&err, EXIT_SANDBOX)
                 : options.work.background ? processes_start(connection, &work.fields)
                                           : attach_run(connection, &work.attach);
    work_free(&work);
    return result;
}

static int run(const struct arguments *arguments)
{
    struct error err;
    int refused = check_options(arguments);
    if (refused)
        return refused;
    const char *namespace = options.namespace ? options.namespace : SANDBOX_DEFAULT_NAMESPACE;
    const char *name = arguments->words[0];
    int result;
    if (sandbox_check_name("namespace", namespace, &err) < 0 ||
        sandbox_check_name("sandbox name", name, &err) < 0)
        return report_error(&err, EXIT_USAGE);
    if (options.list || options.attach) {
        int connection = state_connect(namespace, name, &err);
        result = connection < 0 ? report_error(&err, EXIT_SANDBOX)
                 : options.list ? processes_list(connection, options.work.json)
                                : join(connection);
    } else {
        result = work_in(namespace, name, arguments->command);
    }
    strv_free(options.work.env);
    return result;
}

static const struct option option_table[] = {
    {'c', "code", OPTION_TEXT, &options.work.code, "CODE",
     "run CODE in the warm interpreter; - reads it from stdin"},
    {'l', "language", OPTION_TEXT, &options.language, "LANG",
     "of the code: python, node or bash (python)"},
    {0, "context", OPTION_TEXT, &options.work.context, "ID",
     "run CODE in this interpreter; see msb contexts"},
    {'b', "background", OPTION_FLAG, &options.work.background, NULL,
     "print the command's process id and let it go on"},
    {'a', "attach", OPTION_COUNT, &options.attach, "PID",
     "connect to the command with this process id"},
    {0, "list", OPTION_FLAG, &options.list, NULL, "list commands, also those that ended lately"},
    {0, "json", OPTION_FLAG, &options.work.json, NULL, "the whole answer, or the list, as JSON"},
    {'e', "env", OPTION_LIST, &options.work.env, "K=V",
     "an environment variable, for this call only"},
    {'w', "workdir", OPTION_TEXT, &options.work.workdir, "DIR", "where the command starts"},
    {'u', "user", OPTION_TEXT, &options.work.user, "USER", "who runs the command"},
    {'t', "timeout", OPTION_SECONDS, &options.work.timeout_ms, "S",
     "end the command and all it started after S seconds"},
    {0, "output-limit", OPTION_BYTES, &options.work.output_limit, "BYTES",
     "show so much of its output; the rest is thrown away (all is shown)"},
    {0, "namespace", OPTION_TEXT, &options.namespace, "NS", "the sandbox's namespace (default)"},
    {'T', "no-tty", OPTION_FLAG, &options.work.no_terminal, NULL,
     "no terminal inside, even if there is one here"},
    {0},
};

const struct command exec_command = {
    .name = "exec",
    .summary = "run a command or code in a running sandbox",
    .usage = "exec NAME [OPTIONS] [-- COMMAND…]",
    .argument = ARGUMENT_SANDBOX,
    .description =
        "Runs COMMAND in the sandbox NAME, which goes on afterwards. Variables and files of "
        "earlier\n"
        "calls are still there. Streams, terminal and exit codes are as with msb exe.\n\n"
        "With --background COMMAND goes on by itself; its last 64 KB of output are remembered.\n"
        "--attach shows them and what comes, passes stdin on and ends with the command's exit "
        "code,\n"
        "up to ten minutes after its end. The end of stdin ends the command's stdin, unless stdin\n"
        "was empty, as /dev/null is. To leave and let the command go on: Ctrl-P Ctrl-Q on a\n"
        "terminal inside, else Ctrl-C.",
    .examples = "  msb exe python --name box --detach -c 'x = 6'\n"
                "  msb exec box -c 'print(x*7)'\n"
                "  msb exec box -- bash\n"
                "  pid=$(msb exec box --background -- python3 -m http.server)\n"
                "  msb exec box --list\n"
                "  msb exec box --attach $pid\n"
                "  msb exec box -- kill $pid\n"
                "  msb stop box\n",
    .options = option_table,
    .run = run,
};
