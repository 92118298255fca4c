/* msb mcp: tools for a model, over stdin and stdout. */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/command.h"
#include "sandbox/config.h"
#include "server/tools/tools.h"

static struct {
    const char *tools;
    char **volumes;
} options;

/* Files and /dev/null cannot be waited for. */
static int check_pipe(int fd, const char *name, struct error *err)
{
    struct stat info;
    if (fstat(fd, &info) == 0 && (S_ISFIFO(info.st_mode) || S_ISSOCK(info.st_mode) || isatty(fd)))
        return 0;
    error_set(err, ERROR_INVALID, "%s is no pipe: who is to speak to this?", name);
    return error_hint(err, "a chat client starts \"msb mcp\" itself; docs/mcp.md says how");
}

/* Whatever else prints does so on stderr. Returns the descriptor of the protocol. */
static int take_stdout(struct error *err)
{
    int out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (out < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
        return error_set(err, ERROR_IO, "stdin and stdout must be open");
    return out;
}

static int take_stdin(void)
{
    int in = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    dup2(nothing, STDIN_FILENO);
    fd_close(nothing);
    return in;
}

static int run(const struct arguments *arguments)
{
    struct error err;
    bool is_sessions = options.tools && strcmp(options.tools, "sessions") == 0;
    const char *engine = getenv("MSB_ENGINE");
    if (arguments->count > 0 || (options.tools && !is_sessions)) {
        error_set(&err, ERROR_INVALID, "there is no set of tools \"%.60s\"",
                  options.tools ? options.tools : arguments->words[0]);
        error_hint(&err, "use --tools sessions, or no option at all");
        return report_error(&err, EXIT_USAGE);
    }
    if (check_pipe(STDIN_FILENO, "stdin", &err) < 0 ||
        check_pipe(STDOUT_FILENO, "stdout", &err) < 0)
        return report_error(&err, EXIT_USAGE);
    int out = take_stdout(&err);
    int in = out < 0 ? -1 : take_stdin();
    struct server_options wanted = {.dev = true,
                                    .volumes = options.volumes,
                                    .engines =
                                        engine && engine[0] ? engine : SANDBOX_DEFAULT_ENGINE};
    cleanup_free struct server *server = xcalloc(1, sizeof *server);
    if (out < 0 || tools_serve_stdio(server, &wanted, is_sessions ? TOOLS_SESSIONS : TOOLS_SANDBOX,
                                     in, out, &err) < 0)
        return report_error(&err, EXIT_SANDBOX);
    return 0;
}

static const struct option mcp_options[] = {
    {0, "tools", OPTION_TEXT, &options.tools, "SET",
     "\"sessions\" for execute_code, execute_command and others, instead of sandbox_…"},
    {0, "allow-volumes", OPTION_LIST, &options.volumes, "FOLDER",
     "the model may share it, or folders in it, with its sandboxes"},
    {0},
};

const struct command mcp_command = {
    .name = "mcp",
    .summary = "tools for a chat client, over stdin and stdout",
    .usage = "mcp [OPTIONS]",
    .description =
        "Speaks the Model Context Protocol on stdin and stdout until the client goes: chat\n"
        "clients start it and let their models run code with it (docs/mcp.md). It needs no\n"
        "server. Its sandboxes end with it.",
    .examples = "  claude mcp add sandbox -- msb mcp\n",
    .options = mcp_options,
    .run = run,
};
