#include "sandbox/snapshot.h"

#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/home.h"
#include "base/mem.h"
#include "engine/agent_call.h"
#include "proto/fields.h"
#include "proto/protocol.h"
#include "sandbox/config.h"
#include "sandbox/named_folders.h"
#include "sandbox/state.h"

#define SAVE_MS 600000

static char *folder_of(const char *namespace, const char *name)
{
    return home_path("snapshots/%s/%s", namespace, name);
}

static int name_taken(const char *name, struct error *err)
{
    error_set(err, ERROR_EXISTS, "there is a snapshot named %s already", name);
    return error_hint(err, "choose another name with --as, or remove it: msb snapshot --remove %s",
                      name);
}

static int check_names(const char *namespace, const char *name, struct error *err)
{
    int result = sandbox_check_name("namespace", namespace, err);
    return result < 0 ? result : sandbox_check_name("name of a snapshot", name, err);
}

static int save_into(const char *work, const char *namespace, const char *sandbox,
                     struct error *err)
{
    cleanup_fd int keeper = state_connect(namespace, sandbox, err);
    if (keeper < 0)
        return keeper;
    cleanup_buf struct buf fields = {0};
    fields_add_text(&fields, TAG_PATH, work);
    return agent_call(keeper, OP_SAVE, &fields, SAVE_MS, err);
}

static int put_in_place(const char *work, const char *folder, const char *name, struct error *err)
{
    cleanup_free char *parent = xstrdup(folder);
    *strrchr(parent, '/') = '\0';
    int result = folder_make(parent, 0700, err);
    if (result < 0 || rename(work, folder) == 0)
        return result;
    return errno == ENOTEMPTY || errno == EEXIST
               ? name_taken(name, err)
               : error_errno(err, errno, "cannot put the snapshot into place");
}

int snapshot_make(const char *namespace, const char *sandbox, const char *name, struct error *err)
{
    int result = check_names(namespace, name, err);
    if (result == 0)
        result = sandbox_check_name("sandbox name", sandbox, err);
    if (result < 0)
        return result;
    cleanup_free char *folder = folder_of(namespace, name);
    if (file_exists(folder))
        return name_taken(name, err);
    cleanup_free char *work = NULL;
    int lock = home_workspace(&work, err);
    if (lock < 0)
        return lock;
    result = save_into(work, namespace, sandbox, err);
    if (result == 0)
        result = put_in_place(work, folder, name, err);
    home_workspace_end(work, lock);
    return result;
}

/* Moved away first: nobody finds a part of it. */
int snapshot_remove(const char *namespace, const char *name, struct error *err)
{
    int result = check_names(namespace, name, err);
    if (result < 0)
        return result;
    cleanup_free char *folder = folder_of(namespace, name);
    cleanup_free char *work = NULL;
    int lock = home_workspace(&work, err);
    if (lock < 0)
        return lock;
    cleanup_free char *gone = xasprintf("%s/snapshot", work);
    if (rename(folder, gone) < 0) {
        result = errno == ENOENT
                     ? error_set(err, ERROR_NOT_FOUND, "there is no snapshot named %s", name)
                     : error_errno(err, errno, "cannot remove the snapshot %s", name);
        if (err->code == ERROR_NOT_FOUND)
            error_hint(err, "msb snapshots lists them");
    }
    home_workspace_end(work, lock);
    /* The namespace's folder goes with its last snapshot. */
    *strrchr(folder, '/') = '\0';
    rmdir(folder);
    return result;
}

/* ---- listing ------------------------------------------------------------------------------- */

/* Files that are shared with a template have more names than one. */
static uint64_t own_bytes(const char *folder)
{
    uint64_t bytes = 0;
    DIR *entries = opendir(folder);
    const struct dirent *entry;
    while (entries && (entry = readdir(entries))) {
        struct stat status;
        cleanup_free char *path = xasprintf("%s/%s", folder, entry->d_name);
        if (lstat(path, &status) == 0 && S_ISREG(status.st_mode) && status.st_nlink == 1)
            bytes += (uint64_t)status.st_blocks * 512;
    }
    if (entries)
        closedir(entries);
    return bytes;
}

static char *member(const json_t *json, const char *key)
{
    const char *text = json_string_value(json_object_get(json, key));
    return text ? xstrdup(text) : NULL;
}

struct listing {
    struct snapshot *all;
    size_t count;
};

static void list_one(const char *namespace, const char *name, const char *folder, void *context)
{
    struct listing *listing = context;
    struct stat status = {0};
    cleanup_free char *path = xasprintf("%s/sandbox.json", folder);
    json_t *json = json_load_file(path, 0, NULL);
    stat(path, &status);
    listing->all = xrealloc(listing->all, (listing->count + 1) * sizeof *listing->all);
    listing->all[listing->count++] = (struct snapshot){
        .namespace = xstrdup(namespace),
        .name = xstrdup(name),
        .sandbox = member(json, "name"),
        .image = member(json, "image"),
        .engine = member(json, "engine"),
        .made_us = (uint64_t)status.st_mtime * 1000000,
        .bytes = own_bytes(folder),
    };
    json_decref(json);
}

static int compare(const void *left, const void *right)
{
    const struct snapshot *a = left, *b = right;
    int order = strcmp(a->namespace, b->namespace);
    return order ? order : strcmp(a->name, b->name);
}

void snapshot_list(const char *namespace, struct snapshot **snapshots, size_t *count)
{
    struct listing listing = {0};
    named_folders_visit("snapshots", namespace, list_one, &listing);
    if (listing.count)
        qsort(listing.all, listing.count, sizeof *listing.all, compare);
    *snapshots = listing.all;
    *count = listing.count;
}

void snapshot_list_free(struct snapshot *snapshots, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(snapshots[i].namespace);
        free(snapshots[i].name);
        free(snapshots[i].sandbox);
        free(snapshots[i].image);
        free(snapshots[i].engine);
    }
    free(snapshots);
}
