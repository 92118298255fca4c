#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cli/command.h"
#include "image/image.h"
#include "sandbox/snapshot.h"
#include "sandbox/state.h"

static struct {
    bool force;
} options;

static bool runs_from(const struct state_entry *entry, const char *reference)
{
    json_auto_t *settings = state_settings(entry->namespace, entry->name);
    const char *image = json_string_value(json_object_get(settings, "image"));
    return image && strcmp(image, reference) == 0;
}

static int check_sandboxes(const char *reference, struct error *err)
{
    struct state_entry *entries;
    size_t count;
    int result = state_list(NULL, &entries, &count, err);
    if (result < 0)
        return result;
    for (size_t i = 0; result == 0 && i < count; i++) {
        if (!runs_from(&entries[i], reference))
            continue;
        error_set(err, ERROR_BUSY, "the sandbox %s runs from %s", entries[i].name, reference);
        result = error_hint(err, "msb stop --namespace %s %s; or --force, which leaves it running",
                            entries[i].namespace, entries[i].name);
    }
    state_list_free(entries, count);
    return result;
}

static int check_snapshots(const char *reference, struct error *err)
{
    struct snapshot *snapshots;
    size_t count;
    int result = 0;
    snapshot_list(NULL, &snapshots, &count);
    for (size_t i = 0; result == 0 && i < count; i++) {
        if (!snapshots[i].image || strcmp(snapshots[i].image, reference) != 0)
            continue;
        error_set(err, ERROR_BUSY, "the snapshot %s needs %s", snapshots[i].name, reference);
        result = error_hint(err, "msb snapshot --namespace %s --remove %s; or --force",
                            snapshots[i].namespace, snapshots[i].name);
    }
    snapshot_list_free(snapshots, count);
    return result;
}

static int remove_one(const char *text, struct error *err)
{
    uint64_t freed;
    cleanup_free char *reference = NULL;
    int result = image_resolve(text, &reference, err);
    if (result == 0 && !options.force)
        result = check_sandboxes(reference, err);
    if (result == 0 && !options.force)
        result = check_snapshots(reference, err);
    if (result == 0)
        result = image_remove(reference, &freed, err);
    if (result == 0)
        printf("%s is removed: %.1f MB are free again\n", reference, (double)freed / 1e6);
    return result;
}

static int run(const struct arguments *arguments)
{
    struct error err;
    int exit_code = 0;
    if (arguments->count == 0) {
        error_set(&err, ERROR_INVALID, "which image is to be removed?");
        error_hint(&err, "msb images lists them");
        return report_error(&err, EXIT_USAGE);
    }
    state_sweep();
    for (size_t i = 0; i < arguments->count; i++) {
        if (remove_one(arguments->words[i], &err) < 0) {
            error_hint(&err, "msb images lists those that are here");
            exit_code = report_error(&err, EXIT_SANDBOX);
        }
    }
    return exit_code;
}

static const struct option option_table[] = {
    {'f', "force", OPTION_FLAG, &options.force, NULL,
     "also when sandboxes or snapshots need it; those that run go on"},
    {0},
};

const struct command rmi_command = {
    .name = "rmi",
    .summary = "remove images",
    .usage = "rmi IMAGE… [OPTIONS]",
    .argument = ARGUMENT_IMAGE,
    .description =
        "Forgets images, and frees their files and layers unless another image needs them. IMAGE\n"
        "is a name or the front of a digest, as msb images shows them. An image from which a\n"
        "sandbox runs, or which a snapshot needs, is kept.",
    .examples = "  msb rmi alpine:3.20\n"
                "  msb rmi 1e42bbe2508d\n",
    .options = option_table,
    .run = run,
};
