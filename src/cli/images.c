#include <jansson.h>
#include <stdio.h>

#include "base/mem.h"
#include "cli/command.h"
#include "cli/exchange.h"
#include "cli/image_json.h"
#include "cli/table.h"
#include "image/image.h"

#define SHORT_DIGEST 19 /* "sha256:" and twelve digits, as others show them */

static struct {
    bool json;
} options;

static void add_row(struct table *table, const struct image *image)
{
    char digest[80], size[24], age[32];
    snprintf(digest, sizeof digest, "%.*s", SHORT_DIGEST,
             image->blobs && image->blobs[0] ? image->blobs[0] : image->digest);
    snprintf(size, sizeof size, "%.1f MB", (double)image->size / 1e6);
    table_age(age, sizeof age, image->created_us);
    table_row(table, (const char *[]){image->reference, digest, size, age});
}

static int run(const struct arguments *arguments)
{
    struct error err;
    cleanup_strv char **references = NULL;
    (void)arguments;
    if (image_list(&references, &err) < 0)
        return report_error(&err, EXIT_SANDBOX);
    struct table table;
    table_begin(&table, (const char *[]){"NAME", "DIGEST", "SIZE", "AGE", NULL});
    json_t *list = json_array();
    for (size_t i = 0; references[i]; i++) {
        struct image image;
        if (image_find(references[i], &image, &err) < 0) {
            fprintf(stderr, "msb: %s\n", err.message);
            continue;
        }
        add_row(&table, &image);
        json_array_append_new(list, image_to_json(&image));
        image_release(&image);
    }
    if (options.json)
        print_json(list);
    else
        table_print(&table);
    json_decref(list);
    return 0;
}

static const struct option option_table[] = {
    {0, "json", OPTION_FLAG, &options.json, NULL, "everything there is to know, as JSON"},
    {0},
};

const struct command images_command = {
    .name = "images",
    .summary = "list the images that are here",
    .usage = "images [OPTIONS]",
    .description =
        "Lists the images that sandboxes can start from at once, with the digest of the manifest,\n"
        "the size of the root file system and the time since it was made.",
    .examples = "  msb images\n"
                "  msb images --json\n",
    .options = option_table,
    .run = run,
};
