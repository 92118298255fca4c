#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/mem.h"
#include "cli/command.h"
#include "project/project.h"

static struct {
    const char *file;
} options;

static const char empty_file[] = "# The sandboxes of this project. \"msb add --help\" tells how to "
                                 "add one.\n"
                                 "sandboxes:\n";

/* A folder that is there or is to be made, or the file itself. For free(). */
static char *choose_file(const char *where)
{
    struct stat status;
    size_t length = where ? strlen(where) : 0, own = strlen(PROJECT_FILE);
    if (!where)
        return xstrdup(PROJECT_FILE);
    bool is_folder = stat(where, &status) == 0 && S_ISDIR(status.st_mode);
    bool named = length >= own && strcmp(where + length - own, PROJECT_FILE) == 0 &&
                 (length == own || where[length - own - 1] == '/');
    return named && !is_folder ? xstrdup(where) : xasprintf("%s/" PROJECT_FILE, where);
}

static int make_folder_of(const char *file, struct error *err)
{
    const char *slash = strrchr(file, '/');
    if (!slash || slash == file)
        return 0;
    cleanup_free char *folder = xstrndup(file, (size_t)(slash - file));
    return folder_make(folder, 0777, err);
}

static int make_file(const char *file, struct error *err)
{
    if (file_exists(file)) {
        error_set(err, ERROR_EXISTS, "there is a project already: %s", file);
        return error_hint(err, "\"msb add\" puts sandboxes into it");
    }
    int result = make_folder_of(file, err);
    return result < 0 ? result
                      : file_write_atomic(file, empty_file, sizeof empty_file - 1, 0644, err);
}

static int run(const struct arguments *arguments)
{
    struct error err;
    if (arguments->count > 1 || (arguments->count == 1 && options.file)) {
        error_set(&err, ERROR_INVALID, "msb init makes one project at a time");
        error_hint(&err, "msb init --file DIR");
        return report_error(&err, EXIT_USAGE);
    }
    cleanup_free char *file =
        choose_file(arguments->count == 1 ? arguments->words[0] : options.file);
    if (make_file(file, &err) < 0)
        return report_error(&err, EXIT_FAILURE);
    printf("%s\n", file);
    return 0;
}

static const struct option option_table[] = {
    {'f', "file", OPTION_TEXT, &options.file, "DIR", "make it there (here)"},
    {0},
};

const struct command init_command = {
    .name = "init",
    .summary = "begin a project: make an empty Sandboxfile",
    .usage = "init [--file DIR]",
    .description = "Makes a Sandboxfile without sandboxes in this folder, or in DIR, and prints\n"
                   "where it is. A file that is there already is left alone.",
    .examples = "  msb init\n"
                "  msb add web --image python --port 8080:8000 --start 'python3 -m http.server'\n"
                "  msb up\n",
    .options = option_table,
    .run = run,
};
