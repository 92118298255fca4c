/* What a copy of a sandbox starts from: one that runs, or a snapshot. */
#include "base/file.h"
#include "base/home.h"
#include "base/mem.h"
#include "engine/agent_call.h"
#include "proto/fields.h"
#include "sandbox/keeper_internal.h"
#include "sandbox/state.h"

/* Copying what it has written takes a second for a gigabyte or two. */
#define SAVE_MS 600000

/* Into our own folder: if we die meanwhile, it goes with the rest of us. */
static int save_running(struct keeper *keeper, struct error *err)
{
    const struct sandbox_config *config = &keeper->config;
    cleanup_free char *folder = xasprintf("%s/origin", keeper->folder);
    int result = folder_remove(folder, err);
    if (result == 0)
        result = folder_make(folder, 0700, err);
    if (result < 0)
        return result;
    keeper->origin = steal_pointer(&folder);
    cleanup_fd int source = state_connect(config->namespace, config->fork_of, err);
    if (source < 0)
        return source;
    cleanup_buf struct buf fields = {0};
    fields_add_text(&fields, TAG_PATH, keeper->origin);
    result = agent_call(source, OP_SAVE, &fields, SAVE_MS, err);
    return result < 0 && err->code != ERROR_CANCELLED
               ? error_wrap(err, "sandbox %s cannot be copied", config->fork_of)
               : result;
}

static int find_snapshot(struct keeper *keeper, struct error *err)
{
    const struct sandbox_config *config = &keeper->config;
    keeper->origin = home_path("snapshots/%s/%s", config->namespace, config->snapshot);
    if (file_exists(keeper->origin))
        return 0;
    error_set(err, ERROR_NOT_FOUND, "there is no snapshot named %s", config->snapshot);
    return error_hint(err, "msb snapshots lists them");
}

static void swap(char **one, char **other)
{
    char *kept = *one;
    *one = *other;
    *other = kept;
}

/* All of the original's settings but its name, and what it has itself: its ports, its log, and the
 * command it was started for, which a copy of its memory has running already. */
static void inherit(struct sandbox_config *config, struct sandbox_config *original)
{
    free(steal_pointer(&original->log_folder));
    free(steal_pointer(&original->fingerprint));
    strv_free(steal_pointer(&original->start));
    swap(&original->namespace, &config->namespace);
    swap(&original->name, &config->name);
    swap(&original->fork_of, &config->fork_of);
    swap(&original->snapshot, &config->snapshot);
    original->attached = config->attached;
    original->keep = original->fresh = false;
    for (size_t i = 0; i < original->port_count; i++)
        free(original->ports[i].address);
    original->port_count = 0;
    sandbox_config_free(config);
    *config = *original;
}

static int read_settings(struct keeper *keeper, struct error *err)
{
    struct sandbox_config original = {0};
    cleanup_free char *path = xasprintf("%s/sandbox.json", keeper->origin);
    json_t *json = json_load_file(path, 0, NULL);
    int result = json ? sandbox_config_from_json(json, &original, err)
                      : error_set(err, ERROR_INVALID, "%s holds no sandbox", keeper->origin);
    json_decref(json);
    if (result == 0 && !file_exists(original.image_path)) {
        error_set(err, ERROR_MISSING, "the image of the sandbox, %s, is not there any more",
                  original.image);
        result = error_hint(err, "a copy needs the very same image: start anew from the image");
    }
    if (result == 0)
        inherit(&keeper->config, &original);
    else
        sandbox_config_free(&original);
    return result;
}

int origin_fetch(struct keeper *keeper, struct error *err)
{
    const struct sandbox_config *config = &keeper->config;
    if (!config->fork_of && !config->snapshot)
        return 0;
    int result = config->fork_of ? save_running(keeper, err) : find_snapshot(keeper, err);
    return result < 0 ? result : read_settings(keeper, err);
}

void origin_release(struct keeper *keeper)
{
    struct error ignored;
    if (keeper->origin && keeper->config.fork_of)
        folder_remove(keeper->origin, &ignored);
    free(steal_pointer(&keeper->origin));
}
