#include <stdio.h>

#include "cli/command.h"
#include "image/image.h"

static int run(const struct arguments *arguments)
{
    struct error err;
    int exit_code = 0;
    if (arguments->count == 0) {
        error_set(&err, ERROR_INVALID, "which image is to be removed?");
        error_hint(&err, "msb images lists them");
        return report_error(&err, EXIT_USAGE);
    }
    for (size_t i = 0; i < arguments->count; i++) {
        uint64_t freed;
        if (image_remove(arguments->words[i], &freed, &err) < 0) {
            error_hint(&err, "msb images lists those that are here");
            exit_code = report_error(&err, EXIT_SANDBOX);
            continue;
        }
        printf("%s is removed: %.1f MB are free again\n", arguments->words[i], (double)freed / 1e6);
    }
    return exit_code;
}

static const struct option option_table[] = {{0}};

const struct command rmi_command = {
    .name = "rmi",
    .summary = "remove images",
    .usage = "rmi IMAGE…",
    .argument = ARGUMENT_IMAGE,
    .description =
        "Forgets images, and frees their files and layers unless another image needs them.\n"
        "Sandboxes that run go on.",
    .examples = "  msb rmi alpine:3.20\n",
    .options = option_table,
    .run = run,
};
