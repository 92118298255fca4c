#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "cli/command.h"
#include "cli/project_file.h"

#define SCRIPT_MAX 65536
#define MARK "# Made by \"msb install\"; \"msb uninstall\" removes it."

static struct {
    const char *file;
} options;

static char *bin_folder(struct error *err)
{
    const char *home = getenv("HOME");
    if (home && home[0] == '/')
        return xasprintf("%s/.local/bin", home);
    error_set(err, ERROR_INVALID, "HOME does not name your home folder");
    return NULL;
}

static int check_alias(const char *alias, struct error *err)
{
    if (alias[0] && alias[0] != '.' && alias[0] != '-' && !strchr(alias, '/'))
        return 0;
    error_set(err, ERROR_INVALID, "a command cannot be called \"%.80s\"", alias);
    return error_hint(err, "give a name of its own: msb install NAME COMMAND");
}

/* 1: a script of ours, 0: there is nothing of that name. */
static int find_script(const char *path, struct error *err)
{
    cleanup_buf struct buf text = {0};
    if (!file_exists(path))
        return 0;
    if (file_read(path, SCRIPT_MAX, &text, err) == 0 && strstr(buf_text(&text), MARK))
        return 1;
    return error_set(err, ERROR_EXISTS, "%s is there and was not made by msb install", path);
}

static void append_quoted(struct buf *out, const char *text)
{
    buf_append_text(out, "'");
    for (; *text; text++) {
        if (*text == '\'')
            buf_append_text(out, "'\\''");
        else
            buf_append(out, text, 1);
    }
    buf_append_text(out, "'");
}

static int write_script(const char *path, const char *name, const char *file, struct error *err)
{
    cleanup_buf struct buf text = {0};
    char program[4096];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    if (length < 0)
        return error_errno(err, errno, "cannot tell where msb is");
    program[length] = '\0';
    buf_append_text(&text, "#!/bin/sh\n" MARK "\nexec ");
    append_quoted(&text, program);
    buf_append_text(&text, " run ");
    append_quoted(&text, name);
    buf_append_text(&text, " --file ");
    append_quoted(&text, file);
    buf_append_text(&text, " -- \"$@\"\n");
    return file_write_atomic(path, buf_data(&text), buf_length(&text), 0755, err);
}

static int check_target(const struct project *project, const char *target, struct error *err)
{
    const char *tilde = strchr(target, '~');
    cleanup_free char *name = xstrndup(target, strcspn(target, "~"));
    const struct project_sandbox *sandbox = project_sandbox(project, name, err);
    if (!sandbox)
        return -1;
    struct project_wish wish = {.script = tilde ? tilde + 1 : NULL};
    cleanup_strv char **command = project_command(project, sandbox, &wish, err);
    return command ? 0 : -1;
}

static void warn_of_path(const char *folder)
{
    const char *path = getenv("PATH");
    cleanup_free char *all = xasprintf(":%s:", path ? path : "");
    cleanup_free char *one = xasprintf(":%s:", folder);
    if (!strstr(all, one))
        fprintf(stderr, "msb: %s is not in PATH: add it there to use the command\n", folder);
}

static int install(const char *target, const char *alias, struct error *err)
{
    struct project project;
    int result = project_open(options.file, &project, err);
    if (result == 0)
        result = check_target(&project, target, err);
    if (result == 0)
        result = check_alias(alias, err);
    cleanup_free char *folder = result == 0 ? bin_folder(err) : NULL;
    cleanup_free char *path = folder ? xasprintf("%s/%s", folder, alias) : NULL;
    result = path ? find_script(path, err) : -1;
    if (result >= 0)
        result = folder_make(folder, 0755, err);
    if (result >= 0)
        result = write_script(path, target, project.file, err);
    project_free(&project);
    if (result < 0)
        return result;
    printf("%s\n", path);
    warn_of_path(folder);
    return 0;
}

static int run_install(const struct arguments *arguments)
{
    struct error err;
    if (arguments->count < 1 || arguments->count > 2) {
        error_set(&err, ERROR_INVALID, "which sandbox is to become a command?");
        error_hint(&err, "msb install NAME[~SCRIPT] [COMMAND]");
        return report_error(&err, EXIT_USAGE);
    }
    const char *target = arguments->words[0], *tilde = strchr(target, '~');
    const char *alias = arguments->count == 2 ? arguments->words[1] : tilde ? tilde + 1 : target;
    return install(target, alias, &err) < 0 ? report_error(&err, EXIT_FAILURE) : 0;
}

static int uninstall(const char *alias, struct error *err)
{
    cleanup_free char *folder = check_alias(alias, err) == 0 ? bin_folder(err) : NULL;
    if (!folder)
        return -1;
    cleanup_free char *path = xasprintf("%s/%s", folder, alias);
    int found = find_script(path, err);
    if (found == 0)
        return error_set(err, ERROR_NOT_FOUND, "there is no %s", path);
    if (found > 0 && unlink(path) < 0)
        return error_errno(err, errno, "cannot remove %s", path);
    if (found > 0)
        printf("%s\n", path);
    return found < 0 ? found : 0;
}

static int run_uninstall(const struct arguments *arguments)
{
    struct error err;
    if (arguments->count == 0) {
        error_set(&err, ERROR_INVALID, "which command is to be removed?");
        error_hint(&err, "msb uninstall COMMAND");
        return report_error(&err, EXIT_USAGE);
    }
    for (size_t i = 0; i < arguments->count; i++) {
        if (uninstall(arguments->words[i], &err) < 0)
            return report_error(&err, EXIT_FAILURE);
    }
    return 0;
}

static const struct option install_options[] = {
    PROJECT_OPTION(&options.file),
    {0},
};

static const struct option uninstall_options[] = {{0}};

const struct command install_command = {
    .name = "install",
    .alias = "i",
    .summary = "make a sandbox of the project a command",
    .usage = "install NAME[~SCRIPT] [COMMAND]",
    .argument = ARGUMENT_PROJECT,
    .description = "Writes a script into ~/.local/bin that runs the sandbox, or a script of it,\n"
                   "from anywhere with the arguments it is given. It is called COMMAND, or else\n"
                   "like the script or the sandbox.",
    .examples = "  msb install web~test test-web\n"
                "  test-web --verbose\n",
    .options = install_options,
    .run = run_install,
};

const struct command uninstall_command = {
    .name = "uninstall",
    .summary = "remove a command that msb install made",
    .usage = "uninstall COMMAND…",
    .description = "Removes scripts from ~/.local/bin that msb install made, and no others.",
    .examples = "  msb uninstall test-web\n",
    .options = uninstall_options,
    .run = run_uninstall,
};
