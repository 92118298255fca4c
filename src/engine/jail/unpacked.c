#include "engine/jail/unpacked.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/home.h"
#include "base/lock.h"
#include "base/mem.h"
#include "base/process.h"
#include "base/progress.h"

#define ROOTS "images/roots"

/* Named also by the owner of its files, which changes when a user is given more ids. */
char *unpacked_folder(const struct machine_spec *spec, const struct own_ids *ids)
{
    const char *hex = strchr(spec->image_digest, ':') + 1;
    return home_path(ROOTS "/%s-%u", hex, own_ids_are_many(ids) ? ids->first_user : geteuid());
}

/* As root of the namespace every owner is right; with one id alone all belongs to it. */
static int run_as_owner(char *const *argv, const struct own_ids *ids, struct error *err)
{
    struct process_options options = {0};
    if (!own_ids_are_many(ids))
        return process_run(argv, &options, err);
    cleanup_fd int space = own_ids_space(ids, err);
    if (space < 0)
        return space;
    options.user_space = space;
    return process_run(argv, &options, err);
}

static void remove_remains(const char *folder, const struct own_ids *ids)
{
    struct error ignored;
    cleanup_free char *path = xstrdup(folder);
    char *argv[] = {"rm", "-rf", "--", path, NULL};
    run_as_owner(argv, ids, &ignored);
}

/*
 * Into a folder that others may not enter: files of a hostile image have set-user-id bits. When it
 * is interrupted, what is there so far stays until the next one begins.
 */
static int unpack(const struct machine_spec *spec, const struct own_ids *ids, const char *folder,
                  struct error *err)
{
    cleanup_free char *part = xasprintf("%s.part", folder);
    cleanup_free char *target = xasprintf("--extract=%s", part);
    cleanup_free char *image = xstrdup(spec->image_path);
    char *argv[] = {"fsck.erofs",
                    target,
                    "--preserve-perms",
                    own_ids_are_many(ids) ? "--preserve-owner" : "--no-preserve-owner",
                    image,
                    NULL};
    remove_remains(part, ids);
    int result = run_as_owner(argv, ids, err);
    if (result == 0 && rename(part, folder) < 0)
        result = error_errno(err, errno, "cannot put the unpacked image into place");
    if (result < 0) {
        remove_remains(part, ids);
        error_wrap(err, "cannot unpack the image %s", spec->image_path);
    }
    return result;
}

int unpacked_ensure(const struct machine_spec *spec, const struct own_ids *ids, struct error *err)
{
    cleanup_free char *roots = home_path(ROOTS);
    cleanup_free char *folder = unpacked_folder(spec, ids);
    if (file_exists(folder))
        return 0;
    int result = folder_make(roots, 0700, err);
    if (result < 0)
        return result;
    cleanup_free char *lock_path = xasprintf("%s/.lock", roots);
    cleanup_fd int lock = lock_wait(lock_path, "unpacks an image", err);
    if (lock < 0 || file_exists(folder))
        return lock < 0 ? lock : 0;
    progress_begin("Unpacking the image for jails of an ordinary user");
    result = unpack(spec, ids, folder, err);
    progress_end(result == 0);
    return result;
}
