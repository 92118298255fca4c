#include "image/oci/unpack.h"
#include "cli/command.h"

/* Not for people, so the overview leaves it out: see image/oci/unpack.h. */
static int run(const struct arguments *arguments)
{
    return unpack_main(arguments->words, arguments->count);
}

static const struct option option_table[] = {{0}};

const struct command unpack_command = {
    .name = "unpack-layers",
    .usage = "unpack-layers ROOT WORKDIR PATH LAYER…",
    .description = "What msb pull runs to unpack the layers of an image, with few rights.",
    .options = option_table,
    .run = run,
};
