/* msb image inspect, import and export. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/mem.h"
#include "cli/command.h"
#include "cli/exchange.h"
#include "cli/image_json.h"
#include "image/image.h"

static struct {
    const char *tag;
} options;

static int misused(const char *what, const char *usage)
{
    struct error err;
    error_set(&err, ERROR_INVALID, "%s", what);
    error_hint(&err, "%s", usage);
    return report_error(&err, EXIT_USAGE);
}

static int failed(const struct error *err)
{
    return report_error(err, cancel_signal() ? 128 + cancel_signal() : EXIT_SANDBOX);
}

/* ---- inspect ------------------------------------------------------------------------------- */

static int inspect(const struct arguments *arguments)
{
    struct error err;
    if (arguments->count == 0)
        return misused("which image is it?", "msb image inspect IMAGE");
    json_t *list = json_array();
    for (size_t i = 0; i < arguments->count; i++) {
        struct image image;
        if (image_find(arguments->words[i], &image, &err) < 0) {
            json_decref(list);
            return failed(&err);
        }
        json_array_append_new(list, image_to_json(&image));
        image_release(&image);
    }
    print_json(list);
    json_decref(list);
    return 0;
}

static const struct option no_options[] = {{0}};

const struct command image_inspect_command = {
    .name = "image inspect",
    .summary = "tell all about an image, as JSON",
    .usage = "image inspect IMAGE…",
    .argument = ARGUMENT_IMAGE,
    .description = "Prints what the image is made of and what it says about itself: user, working\n"
                   "folder, environment, command, layers, and the language of its interpreter.",
    .examples = "  msb image inspect python\n",
    .options = no_options,
    .run = inspect,
};

/* ---- import -------------------------------------------------------------------------------- */

static int import(const struct arguments *arguments)
{
    struct error err;
    struct image image;
    if (arguments->count < 1 || arguments->count > 2)
        return misused("which archive is to be imported?", "msb image import FILE [NAME]");
    cancel_install();
    const char *name = arguments->count > 1 ? arguments->words[1] : NULL;
    if (image_import(arguments->words[0], name, options.tag, &image, &err) < 0)
        return failed(&err);
    printf("%s is here: %.1f MB, %s\n", image.reference, (double)image.size / 1e6, image.blobs[0]);
    image_release(&image);
    return 0;
}

static const struct option import_options[] = {
    {0, "tag", OPTION_TEXT, &options.tag, "TAG", "which one, when a layout has several"},
    {0},
};

const struct command image_import_command = {
    .name = "image import",
    .summary = "take an image from an archive",
    .usage = "image import FILE [NAME] [OPTIONS]",
    .description =
        "Takes an image from FILE: an archive of docker save, or a layout of OCI as a folder or "
        "as\n"
        "a tar archive. NAME is what it is called here; without it, what the archive calls it.",
    .examples = "  docker save tool:1 >tool.tar; msb image import tool.tar\n"
                "  msb image import ./layout localhost/tool:1 --tag 1\n",
    .options = import_options,
    .run = import,
};

/* ---- export -------------------------------------------------------------------------------- */

/* The file is there only when it is whole. */
static int export_to(const char *reference, const char *path, struct error *err)
{
    cleanup_free char *partial = xasprintf("%s.part", path);
    cleanup_fd int fd = open(partial, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0)
        return error_errno(err, errno, "cannot write %s", partial);
    int result = image_export(reference, fd, err);
    if (result == 0 && rename(partial, path) < 0)
        result = error_errno(err, errno, "cannot write %s", path);
    if (result < 0)
        unlink(partial);
    return result;
}

static int export(const struct arguments *arguments)
{
    struct error err;
    if (arguments->count != 2)
        return misused("an image and a file are needed", "msb image export IMAGE FILE");
    const char *path = arguments->words[1];
    bool to_stdout = strcmp(path, "-") == 0;
    if (to_stdout && isatty(STDOUT_FILENO))
        return misused("an archive is nothing for a terminal", "name a file instead of -");
    cancel_install();
    int result = to_stdout ? image_export(arguments->words[0], STDOUT_FILENO, &err)
                           : export_to(arguments->words[0], path, &err);
    return result < 0 ? failed(&err) : 0;
}

const struct command image_export_command = {
    .name = "image export",
    .summary = "write an image to an archive",
    .usage = "image export IMAGE FILE",
    .argument = ARGUMENT_IMAGE,
    .description =
        "Writes an image that came from a registry or an archive to FILE (- is stdout): a tar\n"
        "archive that is a layout of OCI and that docker load reads too.",
    .examples = "  msb image export alpine:3.20 alpine.tar\n",
    .options = no_options,
    .run = export,
};
