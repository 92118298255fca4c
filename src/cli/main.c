#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log_file.h"
#include "base/mem.h"
#include "base/title.h"
#include "cli/command.h"

static const struct command *const commands[] = {
    &exe_command,
    &exec_command,
    &ps_command,
    &stop_command,
    &pause_command,
    &resume_command,
    &fork_command,
    &snapshot_command,
    &snapshots_command,
    &restore_command,
    &contexts_command,
    &metrics_command,
    &packages_command,
    &prepare_command,
    &doctor_command,
    &version_command,
    &mcp_command,
    &server_start_command,
    &server_stop_command,
    &server_status_command,
    &server_log_command,
    &server_keygen_command,
    &server_launcher_command,
};
#define COMMANDS (sizeof commands / sizeof commands[0])

/* How many of the words name the command; 0: it is another one. */
static int match(const struct command *command, int argc, char **argv)
{
    size_t first = strcspn(command->name, " ");
    const char *second = command->name[first] ? command->name + first + 1 : NULL;
    if (strlen(argv[0]) != first || memcmp(argv[0], command->name, first) != 0)
        return 0;
    if (!second)
        return 1;
    return argc > 1 && strcmp(argv[1], second) == 0 ? 2 : 0;
}

static const struct command *find_command(int argc, char **argv, int *words)
{
    if (strcmp(argv[0], "x") == 0)
        argv[0] = "exe";
    if (strcmp(argv[0], "--version") == 0 || strcmp(argv[0], "-V") == 0)
        argv[0] = "version";
    for (size_t i = 0; i < COMMANDS; i++) {
        *words = match(commands[i], argc, argv);
        if (*words > 0)
            return commands[i];
    }
    return NULL;
}

static void print_overview(FILE *to)
{
    fprintf(to, "Usage: msb COMMAND [OPTIONS]\n\n"
                "Runs code that nobody trusts, in machines of its own that start in an instant.\n\n"
                "Commands:\n");
    for (size_t i = 0; i < COMMANDS; i++) {
        if (commands[i]->summary)
            fprintf(to, "  %-13s %s\n", commands[i]->name, commands[i]->summary);
    }
    fprintf(to, "\n\"msb COMMAND --help\" explains a command. A first run:\n"
                "  msb exe python -c 'print(6*7)'\n\n"
                "Environment:\n"
                "  MSB_HOME        where kernels, images, templates and sandboxes are kept\n"
                "                  (~/.microsandbox)\n"
                "  MSB_KERNEL      a kernel to use instead of Debian's\n"
                "  MSB_QEMU        a QEMU to use instead of the one in PATH\n"
                "  MSB_LOG_LEVEL   error, warn, info or debug: how much is told (warn; info by\n"
                "                  the server)\n"
                "  MSB_LOG_FILE    a file for that, instead of stderr\n"
                "  MSB_LOG_FORMAT  json or console (json in files)\n");
}

static int unknown_command(int argc, char **argv)
{
    struct error err;
    bool is_server = strcmp(argv[0], "server") == 0;
    error_set(&err, ERROR_INVALID, "there is no command \"%.60s%s%.60s\"", argv[0],
              is_server && argc > 1 ? " " : "", is_server && argc > 1 ? argv[1] : "");
    error_hint(&err, "msb --help lists them");
    return report_error(&err, EXIT_USAGE);
}

static bool wants_help(int argc, char **argv)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return true;
    }
    return false;
}

static int run_command(const struct command *command, int argc, char **argv)
{
    if (wants_help(argc, argv)) {
        command_help(command);
        return 0;
    }
    struct error err;
    struct arguments arguments;
    int result = command_parse(command, argc, argv, &arguments, &err) < 0
                     ? report_error(&err, EXIT_USAGE)
                     : command->run(&arguments);
    free(arguments.words);
    return result;
}

/* A descriptor that is closed would be given to the next file opened, and taken for stdin or
 * stdout there. */
static void open_standard_descriptors(void)
{
    int fd;
    do {
        fd = open("/dev/null", O_RDWR);
    } while (fd >= 0 && fd <= STDERR_FILENO);
    fd_close(fd);
}

int main(int argc, char **argv)
{
    open_standard_descriptors();
    title_init(argc, argv);
    signal(SIGPIPE, SIG_IGN);
    struct error err;
    if (log_configure(LOG_LEVEL_WARN, NULL, &err) < 0)
        return report_error(&err, EXIT_USAGE);
    if (argc < 2) {
        print_overview(stderr);
        return EXIT_USAGE;
    }
    bool help = strcmp(argv[1], "help") == 0;
    if ((help && argc == 2) || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        print_overview(stdout);
        return 0;
    }
    argc -= help ? 2 : 1;
    argv += help ? 2 : 1;
    int words;
    const struct command *command = find_command(argc, argv, &words);
    if (!command)
        return unknown_command(argc, argv);
    if (help) {
        command_help(command);
        return 0;
    }
    int result = run_command(command, argc - words, argv + words);
    /* Not by return: libuv would wait for its threads, and one of them may wait for our stdin. */
    fflush(NULL);
    _exit(result);
}
