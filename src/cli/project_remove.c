#include <stdio.h>

#include "base/mem.h"
#include "cli/command.h"
#include "cli/project_file.h"
#include "sandbox/kept.h"

static struct {
    const char *file;
} options;

static int remove_all(const struct arguments *arguments, struct error *err)
{
    struct project project = {0};
    cleanup_buf struct buf text = {0};
    cleanup_free char *file = project_find(options.file, err);
    int result = file ? project_read_text(file, &text, err) : -1;
    for (size_t i = 0; result == 0 && i < arguments->count; i++) {
        cleanup_free char *changed =
            sandboxfile_without(file, buf_text(&text), arguments->words[i], err);
        buf_consume(&text, buf_length(&text));
        buf_append_text(&text, changed ? changed : "");
        result = changed ? 0 : -1;
    }
    if (result == 0) {
        result = project_parse(file, buf_text(&text), &project, err);
        project_free(&project);
    }
    return result < 0 ? result : project_rewrite(file, buf_text(&text), err);
}

/* Files are not lost by a change of the file. */
static void tell_kept(const struct arguments *arguments)
{
    struct error ignored;
    struct project project;
    bool is_loaded = project_open(options.file, &project, &ignored) == 0;
    cleanup_free char *namespace = is_loaded ? project_namespace(&project) : NULL;
    for (size_t i = 0; namespace && i < arguments->count; i++) {
        if (kept_bytes(namespace, arguments->words[i]))
            fprintf(stderr, "msb: the files of %s are still kept: \"msb clean %s\" removes them\n",
                    arguments->words[i], arguments->words[i]);
    }
    project_free(&project);
}

static int run(const struct arguments *arguments)
{
    struct error err;
    if (arguments->count == 0) {
        error_set(&err, ERROR_INVALID, "which sandbox is to be removed from the file?");
        error_hint(&err, "\"msb list\" shows those it has");
        return report_error(&err, EXIT_USAGE);
    }
    if (remove_all(arguments, &err) < 0)
        return report_error(&err, EXIT_FAILURE);
    for (size_t i = 0; i < arguments->count; i++)
        printf("%s\n", arguments->words[i]);
    fflush(stdout);
    tell_kept(arguments);
    return 0;
}

static const struct option option_table[] = {
    PROJECT_OPTION(&options.file),
    {0},
};

const struct command remove_command = {
    .name = "remove",
    .alias = "rm",
    .summary = "remove sandboxes from the project",
    .usage = "remove NAME…",
    .argument = ARGUMENT_PROJECT,
    .description =
        "Takes sandboxes out of the Sandboxfile; the rest of it stays as it is. Those\n"
        "that run go on until msb down or msb apply. The files they have written are kept\n"
        "until msb clean.",
    .examples = "  msb remove web\n",
    .options = option_table,
    .run = run,
};
