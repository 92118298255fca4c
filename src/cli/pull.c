#include <stdio.h>

#include "base/cancel.h"
#include "base/progress.h"
#include "cli/command.h"
#include "cli/exchange.h"
#include "cli/image_json.h"
#include "image/image.h"

static struct {
    bool insecure, quiet, json;
} options;

static void tell(const struct image *image, bool changed, json_t *list)
{
    if (!options.json)
        printf("%s %s: %.1f MB, %s\n", image->reference, changed ? "is here" : "is up to date",
               (double)image->size / 1e6, image->blobs[0]);
    json_t *entry = image_to_json(image);
    json_object_set_new(entry, "changed", json_boolean(changed));
    json_array_append_new(list, entry);
}

static int run(const struct arguments *arguments)
{
    struct error err;
    if (arguments->count == 0) {
        error_set(&err, ERROR_INVALID, "which image is to be pulled?");
        error_hint(&err, "msb pull alpine:3.20");
        return report_error(&err, EXIT_USAGE);
    }
    if (options.quiet)
        progress_silence();
    cancel_install();
    json_auto_t *list = json_array();
    for (size_t i = 0; i < arguments->count; i++) {
        struct image image;
        bool changed;
        if (image_pull(arguments->words[i], options.insecure, &image, &changed, &err) < 0)
            return report_error(&err, cancel_signal() ? 128 + cancel_signal() : EXIT_SANDBOX);
        tell(&image, changed, list);
        image_release(&image);
    }
    if (options.json)
        print_json(list);
    return 0;
}

static const struct option option_table[] = {
    {0, "insecure", OPTION_FLAG, &options.insecure, NULL,
     "the registry speaks plain http (MSB_INSECURE_REGISTRIES=HOST:PORT,…)"},
    {0, "json", OPTION_FLAG, &options.json, NULL, "tell what is here now as JSON"},
    {'q', "quiet", OPTION_FLAG, &options.quiet, NULL, "show no progress"},
    {0},
};

const struct command pull_command = {
    .name = "pull",
    .summary = "fetch an image from its registry",
    .usage = "pull IMAGE… [OPTIONS]",
    .description =
        "Fetches IMAGE, or what is new in it, and makes it ready for sandboxes. msb exe does that\n"
        "by itself for an image that is not here yet. Names are read as everywhere: alpine:3.20 "
        "is\n"
        "docker.io/library/alpine:3.20, or OCI_REGISTRY_DOMAIN's when that is set;\n"
        "registry.example:5000/team/tool@sha256:… says it all. python and node without a tag are\n"
        "the images that msb builds itself.\n"
        "\n"
        "Layers are shared between images, fetched several at once, and resumed where they were\n"
        "interrupted. Nothing is used before its digest is right.",
    .examples = "  msb pull alpine:3.20\n"
                "  msb pull registry.example/team/tool\n"
                "  msb pull --insecure localhost:5000/tool\n",
    .options = option_table,
    .run = run,
};
