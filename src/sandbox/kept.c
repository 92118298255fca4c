#include "sandbox/kept.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/home.h"
#include "base/mem.h"
#include "engine/disk.h"
#include "sandbox/named_folders.h"
#include "sandbox/state.h"

static char *folder_of(const char *namespace, const char *name)
{
    return home_path("disks/%s/%s", namespace, name);
}

/* For json_decref; NULL: nothing is kept. */
static json_t *read_about(const char *folder)
{
    cleanup_free char *path = xasprintf("%s/kept.json", folder);
    return json_load_file(path, 0, NULL);
}

static json_t *describe(const struct sandbox_config *config)
{
    return json_pack("{s:s, s:s, s:s, s:I, s:I}", "engine", config->engine, "image", config->image,
                     "image_digest", config->image_digest, "disk_mb", (json_int_t)config->disk_mb,
                     "files", (json_int_t)config->files);
}

static int make(const char *folder, const struct sandbox_config *config, struct error *err)
{
    cleanup_free char *disk = xasprintf("%s/disk", folder);
    cleanup_free char *about = xasprintf("%s/kept.json", folder);
    int result = folder_remove(folder, err);
    if (result == 0)
        result = folder_make(folder, 0700, err);
    if (result == 0)
        result = disk_make(disk, config->disk_mb, config->files, true, err);
    if (result < 0)
        return result;
    json_t *json = describe(config);
    cleanup_free char *text = json_dumps(json, JSON_INDENT(2));
    json_decref(json);
    return file_write_atomic(about, text, strlen(text), 0600, err);
}

static bool is_same(const json_t *kept, const json_t *wanted, const char *key)
{
    return json_equal(json_object_get(kept, key), json_object_get(wanted, key));
}

static int compare_settings(const json_t *kept, const struct sandbox_config *config,
                            struct error *err)
{
    const char *engine = json_string_value(json_object_get(kept, "engine"));
    const char *image = json_string_value(json_object_get(kept, "image"));
    json_t *wanted = describe(config);
    int result = 0;
    if (!is_same(kept, wanted, "engine"))
        result = error_set(err, ERROR_INVALID, "the files of sandbox %s were kept by engine %s",
                           config->name, engine ? engine : "?");
    else if (!is_same(kept, wanted, "image_digest"))
        result =
            error_set(err, ERROR_INVALID,
                      "the files of sandbox %s were kept over another image: %s as it was then",
                      config->name, image ? image : "?");
    else if (!is_same(kept, wanted, "disk_mb") || !is_same(kept, wanted, "files"))
        result = error_set(err, ERROR_INVALID,
                           "the files of sandbox %s were kept on a disk of %lld MB", config->name,
                           (long long)json_integer_value(json_object_get(kept, "disk_mb")));
    json_decref(wanted);
    return result < 0 ? error_hint(err, "start it as it was, or throw the files away with --fresh")
                      : 0;
}

int kept_check(const struct sandbox_config *config, struct error *err)
{
    cleanup_free char *folder = folder_of(config->namespace, config->name);
    json_t *kept = config->keep && !config->fresh ? read_about(folder) : NULL;
    int result = kept ? compare_settings(kept, config, err) : 0;
    json_decref(kept);
    return result;
}

int kept_open(const struct sandbox_config *config, char **disk, struct error *err)
{
    cleanup_free char *folder = folder_of(config->namespace, config->name);
    *disk = NULL;
    int result = config->fresh ? folder_remove(folder, err) : 0;
    if (result < 0 || !config->keep)
        return result;
    json_t *kept = read_about(folder);
    result = kept ? compare_settings(kept, config, err) : make(folder, config, err);
    json_decref(kept);
    if (result == 0)
        *disk = xasprintf("%s/disk", folder);
    return result;
}

/* ---- what there is ------------------------------------------------------------------------- */

static char *member(const json_t *json, const char *key)
{
    const char *text = json_string_value(json_object_get(json, key));
    return text ? xstrdup(text) : NULL;
}

struct listing {
    struct kept *all;
    size_t count;
};

static void list_one(const char *namespace, const char *name, const char *folder, void *context)
{
    struct listing *listing = context;
    struct stat status = {0};
    cleanup_free char *disk = xasprintf("%s/disk", folder);
    json_t *about = read_about(folder);
    stat(disk, &status);
    listing->all = xrealloc(listing->all, (listing->count + 1) * sizeof *listing->all);
    listing->all[listing->count++] = (struct kept){
        .namespace = xstrdup(namespace),
        .name = xstrdup(name),
        .image = member(about, "image"),
        .engine = member(about, "engine"),
        .used_us = (uint64_t)status.st_mtime * 1000000,
        .bytes = (uint64_t)status.st_blocks * 512,
        .disk_mb = (unsigned)json_integer_value(json_object_get(about, "disk_mb")),
    };
    json_decref(about);
}

static int compare(const void *left, const void *right)
{
    const struct kept *a = left, *b = right;
    int order = strcmp(a->namespace, b->namespace);
    return order ? order : strcmp(a->name, b->name);
}

void kept_list(const char *namespace, struct kept **list, size_t *count)
{
    struct listing listing = {0};
    named_folders_visit("disks", namespace, list_one, &listing);
    if (listing.count)
        qsort(listing.all, listing.count, sizeof *listing.all, compare);
    *list = listing.all;
    *count = listing.count;
}

void kept_list_free(struct kept *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(list[i].namespace);
        free(list[i].name);
        free(list[i].image);
        free(list[i].engine);
    }
    free(list);
}

uint64_t kept_bytes(const char *namespace, const char *name)
{
    struct stat status;
    cleanup_free char *disk = home_path("disks/%s/%s/disk", namespace, name);
    return stat(disk, &status) == 0 ? (uint64_t)status.st_blocks * 512 : 0;
}

int kept_remove(const char *namespace, const char *name, struct error *err)
{
    cleanup_free char *folder = folder_of(namespace, name), *state = NULL;
    if (!file_exists(folder))
        return error_set(err, ERROR_NOT_FOUND, "no files are kept of a sandbox named %s", name);
    /* As long as we have its name nobody starts it. */
    int lock = state_create(namespace, name, &state, err);
    if (lock < 0 && err->code == ERROR_EXISTS)
        return error_set(err, ERROR_BUSY, "the sandbox %s runs, and its files are in use", name);
    if (lock < 0)
        return lock;
    int result = folder_remove(folder, err);
    state_remove(state, lock);
    *strrchr(folder, '/') = '\0';
    rmdir(folder);
    return result;
}
