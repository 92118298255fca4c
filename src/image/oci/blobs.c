#include "image/oci/blobs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/home.h"
#include "base/lock.h"
#include "base/mem.h"
#include "image/store.h"

#define PREFIX "sha256-"
#define PARTIAL_SECONDS (24 * 3600)

static const char *hex_of(const char *digest)
{
    return digest + strlen("sha256:");
}

char *blobs_path(const char *digest)
{
    return home_path("images/oci/" PREFIX "%s", hex_of(digest));
}

char *blobs_partial_path(const char *digest)
{
    return home_path("images/partial/" PREFIX "%s", hex_of(digest));
}

static int open_gate(struct error *err)
{
    cleanup_free char *gate = home_path("images/locks/oci");
    static const char *const folders[] = {"images/oci", "images/partial", "images/locks/layers"};
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        cleanup_free char *folder = home_path("%s", folders[i]);
        if (folder_make(folder, 0755, err) < 0)
            return error_hint(err, "set MSB_HOME to a folder you may write to");
    }
    int fd = open(gate, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    return fd < 0 ? error_errno(err, errno, "cannot open %s", gate) : fd;
}

int blobs_hold(struct error *err)
{
    cleanup_fd int gate = open_gate(err);
    if (gate < 0)
        return gate;
    while (flock(gate, LOCK_SH) < 0) {
        if (errno != EINTR)
            return error_errno(err, errno, "cannot hold the images");
    }
    return steal_fd(&gate);
}

int blobs_lock(const char *digest, struct error *err)
{
    cleanup_free char *path = home_path("images/locks/layers/%s", hex_of(digest));
    return lock_wait(path, "downloads a layer that is needed here too", err);
}

bool blobs_have(const char *digest, uint64_t size)
{
    struct stat status;
    cleanup_free char *path = blobs_path(digest);
    return stat(path, &status) == 0 && S_ISREG(status.st_mode) && (uint64_t)status.st_size == size;
}

int blobs_take(const char *path, const char *digest, struct error *err)
{
    cleanup_free char *place = blobs_path(digest);
    if (rename(path, place) < 0)
        return error_errno(err, errno, "cannot move %s to %s", path, place);
    return 0;
}

int blobs_write(const void *bytes, size_t length, const char *digest, struct error *err)
{
    cleanup_free char *place = blobs_path(digest);
    return file_write_atomic(place, bytes, length, 0644, err);
}

/* ---- collecting ---------------------------------------------------------------------------- */

static bool is_used(char *const *digests, const char *name)
{
    if (strncmp(name, PREFIX, strlen(PREFIX)) != 0)
        return false;
    for (; digests && *digests; digests++) {
        if (strcmp(hex_of(*digests), name + strlen(PREFIX)) == 0)
            return true;
    }
    return false;
}

/* NULL with *failed when the store cannot be read: then nothing may be removed. */
static char **list_used(bool *failed)
{
    struct error ignored;
    cleanup_strv char **references = NULL;
    char **used = NULL;
    *failed = image_list(&references, &ignored) < 0;
    for (size_t i = 0; !*failed && references[i]; i++) {
        cleanup_strv char **blobs = NULL;
        if (store_load_blobs(references[i], &blobs, &ignored) < 0)
            *failed = true;
        for (size_t j = 0; blobs && blobs[j]; j++)
            strv_append(&used, xstrdup(blobs[j]));
    }
    return used;
}

static uint64_t sweep_folder(const char *folder, char *const *used, time_t older_than)
{
    uint64_t freed = 0;
    cleanup_free char *path = home_path("%s", folder);
    DIR *entries = opendir(path);
    const struct dirent *entry;
    while (entries && (entry = readdir(entries))) {
        struct stat status;
        if (entry->d_name[0] == '.' ||
            fstatat(dirfd(entries), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) < 0 ||
            status.st_mtime > older_than || is_used(used, entry->d_name))
            continue;
        if (unlinkat(dirfd(entries), entry->d_name, 0) == 0)
            freed += (uint64_t)status.st_size;
    }
    if (entries)
        closedir(entries);
    return freed;
}

uint64_t blobs_collect(void)
{
    struct error ignored;
    cleanup_fd int gate = open_gate(&ignored);
    if (gate < 0 || flock(gate, LOCK_EX | LOCK_NB) < 0)
        return 0;
    bool failed;
    cleanup_strv char **used = list_used(&failed);
    if (failed)
        return 0;
    const time_t now = time(NULL);
    uint64_t freed = sweep_folder("images/oci", used, now + PARTIAL_SECONDS);
    freed += sweep_folder("images/partial", NULL, now - PARTIAL_SECONDS);
    sweep_folder("images/locks/layers", NULL, now);
    return freed;
}
