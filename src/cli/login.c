/* msb login and msb logout. */
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/mem.h"
#include "cli/command.h"
#include "image/oci/credentials.h"
#include "image/oci/registry.h"

#define LINE_LENGTH 4096
#define PASSWORD_LENGTH 65536
#define DEFAULT_REGISTRY "docker.io"

static struct {
    const char *user;
    bool password_stdin, insecure;
} options;

/* NULL at the end of the input. */
static char *read_line(void)
{
    char line[LINE_LENGTH];
    if (!fgets(line, sizeof line, stdin))
        return NULL;
    line[strcspn(line, "\r\n")] = '\0';
    char *copy = xstrdup(line);
    explicit_bzero(line, sizeof line);
    return copy;
}

/* Everything, without the end of its last line: keys of some registries have several lines. */
static char *read_password(struct error *err)
{
    cleanup_free char *text = xcalloc(1, PASSWORD_LENGTH + 1);
    size_t length = fread(text, 1, PASSWORD_LENGTH + 1, stdin);
    if (length > PASSWORD_LENGTH || memchr(text, '\0', length)) {
        error_set(err, ERROR_INVALID, "what came on stdin is no password");
        return NULL;
    }
    while (length > 0 && (text[length - 1] == '\n' || text[length - 1] == '\r'))
        text[--length] = '\0';
    return steal_pointer(&text);
}

/* Waits for the answer first: a signal just before it is read would be missed. */
static char *ask(const char *question)
{
    struct pollfd wait[] = {{.fd = isatty(STDIN_FILENO) ? STDIN_FILENO : -1, .events = POLLIN},
                            {.fd = cancel_fd(), .events = POLLIN}};
    fputs(question, stderr);
    while (wait[0].fd >= 0 && !cancel_requested() && !wait[0].revents)
        poll(wait, 2, -1);
    return cancel_requested() ? NULL : read_line();
}

static char *ask_quietly(const char *question)
{
    struct termios before, quiet;
    bool terminal = tcgetattr(STDIN_FILENO, &before) == 0;
    if (terminal) {
        quiet = before;
        quiet.c_lflag &= ~(tcflag_t)ECHO;
        tcsetattr(STDIN_FILENO, TCSAFLUSH, &quiet);
    }
    char *answer = ask(question);
    if (terminal) {
        tcsetattr(STDIN_FILENO, TCSAFLUSH, &before);
        fputc('\n', stderr);
    }
    return answer;
}

/* A registry by itself, in the form that references have. */
static int read_registry(const struct arguments *arguments, char **registry, struct error *err)
{
    if (arguments->count > 1)
        return error_set(err, ERROR_INVALID, "one registry at a time");
    const char *given = arguments->count ? arguments->words[0] : DEFAULT_REGISTRY;
    cleanup_free char *image = xasprintf("%s/x", given);
    cleanup_free char *full = NULL;
    int result = reference_normalize(image, &full, err);
    struct reference parts = {0};
    if (result == 0)
        parts = reference_split(full);
    bool fits = result == 0 && strcmp(parts.repository + strlen(parts.repository) - 1, "x") == 0 &&
                (strcmp(parts.registry, given) == 0 || strcmp(parts.registry, "docker.io") == 0) &&
                strpbrk(given, ".:") != NULL;
    if (fits || (result == 0 && strcmp(given, "localhost") == 0)) {
        *registry = xstrdup(parts.registry);
        reference_release(&parts);
        return 0;
    }
    reference_release(&parts);
    error_set(err, ERROR_INVALID, "this is not the name of a registry: %.100s", given);
    return error_hint(err, "a name looks like registry.example or localhost:5000");
}

static int read_credentials(struct credentials *credentials, struct error *err)
{
    if (options.password_stdin && !options.user) {
        error_set(err, ERROR_INVALID, "--password-stdin needs --user");
        return error_hint(err, "msb login REGISTRY --user NAME --password-stdin <FILE");
    }
    credentials->user = options.user ? xstrdup(options.user) : ask("User: ");
    if (options.password_stdin) {
        credentials->password = read_password(err);
        if (!credentials->password)
            return -1;
    } else if (credentials->user) {
        credentials->password = ask_quietly("Password: ");
    }
    if (cancel_requested())
        return cancel_error(err);
    if (!credentials->password || !credentials->password[0] || !credentials->user[0] ||
        strchr(credentials->user, ':'))
        return error_set(err, ERROR_INVALID, "a name without a colon and a password are needed");
    return 0;
}

static int check_and_save(const char *name, const struct credentials *credentials,
                          struct error *err)
{
    cleanup_free char *copy = xstrdup(name);
    struct registry registry;
    registry_open(&registry, &(struct reference){.registry = copy}, options.insecure);
    int result = registry_check_login(&registry, credentials, err);
    registry_close(&registry);
    return result < 0 ? result : credentials_save(name, credentials, err);
}

static int login(const struct arguments *arguments)
{
    struct error err;
    cleanup_free char *registry = NULL;
    struct credentials credentials = {0};
    int exit_code = 0;
    cancel_install();
    if (read_registry(arguments, &registry, &err) < 0 || read_credentials(&credentials, &err) < 0)
        exit_code = report_error(&err, cancel_signal() ? 128 + cancel_signal() : EXIT_USAGE);
    else if (check_and_save(registry, &credentials, &err) < 0)
        exit_code = report_error(&err, EXIT_SANDBOX);
    else
        printf("logged in to %s\n", registry);
    credentials_release(&credentials);
    return exit_code;
}

static int logout(const struct arguments *arguments)
{
    struct error err;
    cleanup_free char *registry = NULL;
    if (read_registry(arguments, &registry, &err) < 0)
        return report_error(&err, EXIT_USAGE);
    if (credentials_forget(registry, &err) < 0)
        return report_error(&err, EXIT_SANDBOX);
    printf("logged out of %s\n", registry);
    return 0;
}

static const struct option login_options[] = {
    {'u', "user", OPTION_TEXT, &options.user, "NAME", "who you are there"},
    {0, "password-stdin", OPTION_FLAG, &options.password_stdin, NULL,
     "read the password from stdin without asking"},
    {0, "insecure", OPTION_FLAG, &options.insecure, NULL,
     "the registry speaks plain http (MSB_INSECURE_REGISTRIES=HOST:PORT,…)"},
    {0},
};

const struct command login_command = {
    .name = "login",
    .summary = "remember a name and a password for a registry",
    .usage = "login [REGISTRY] [OPTIONS]",
    .description =
        "Tries a name and a password with REGISTRY (docker.io) and, when they are right, keeps\n"
        "them in $MSB_HOME/credentials.json, which only you can read. Those in docker's own\n"
        "config.json are used too.",
    .examples = "  msb login registry.example\n"
                "  msb login registry.example -u robot --password-stdin <token\n",
    .options = login_options,
    .run = login,
};

static const struct option logout_options[] = {{0}};

const struct command logout_command = {
    .name = "logout",
    .summary = "forget the password for a registry",
    .usage = "logout [REGISTRY]",
    .description = "Removes what msb login has saved for REGISTRY (docker.io).",
    .examples = "  msb logout registry.example\n",
    .options = logout_options,
    .run = logout,
};
