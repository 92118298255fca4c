#include "engine/vm/confine_root.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/embed.h"
#include "base/file.h"
#include "base/mem.h"
#include "engine/mounts.h"

#define SHOWN (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)

/* All of it is the distribution's. */
const char *const confine_libraries[] = {"/usr/lib", "/usr/lib64", "/lib", "/lib64", NULL};
const char *const confine_firmware[] = {"/usr/share/qemu", "/usr/share/seabios",
                                        "/usr/share/qemu-efi", NULL};

EMBED(capstone, "capstone.so");
EMBED(pmem, "pmem.so");
EMBED(sasl, "sasl.so");
EMBED(thaw, "thaw");

struct inside_file confine_capstone(void)
{
    return (struct inside_file){CONFINE_CAPSTONE, capstone_begin, EMBED_SIZE(capstone)};
}

struct inside_file confine_pmem(void)
{
    return (struct inside_file){CONFINE_PMEM, pmem_begin, EMBED_SIZE(pmem)};
}

static int put_file(const char *path, const uint8_t *bytes, size_t size, struct error *err)
{
    cleanup_fd int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0555);
    return fd >= 0 && file_write_all(fd, bytes, size) == 0
               ? 0
               : error_errno(err, errno, "cannot write a file for QEMU");
}

/*
 * QEMU asks for libcapstone by the version that it was built with, another one in each release of a
 * distribution. The loader finds our file by each of these names and knows that it has it already.
 */
static int link_capstone(struct error *err)
{
    if (mkdir("." CONFINE_LINKS, 0755) < 0)
        return error_errno(err, errno, "cannot make a place for libraries");
    for (int version = 3; version <= 9; version++) {
        char name[64];
        snprintf(name, sizeof name, "." CONFINE_LINKS "/libcapstone.so.%d", version);
        if (symlink(CONFINE_CAPSTONE, name) < 0)
            return error_errno(err, errno, "cannot link a library for QEMU");
    }
    return 0;
}

static int put_libraries(struct error *err)
{
    int result = put_file("." CONFINE_CAPSTONE, capstone_begin, EMBED_SIZE(capstone), err);
    if (result == 0)
        result = link_capstone(err);
    if (result == 0)
        result = put_file("." CONFINE_PMEM, pmem_begin, EMBED_SIZE(pmem), err);
    return result < 0 ? result : put_file("." CONFINE_SASL, sasl_begin, EMBED_SIZE(sasl), err);
}

static int attach_volume(int tree, size_t index, struct error *err)
{
    char target[64];
    snprintf(target, sizeof target, "." CONFINE_VOLUMES "/%zu", index);
    if (mkdir(target, 0755) < 0 ||
        move_mount(tree, "", AT_FDCWD, target, MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return error_errno(err, errno, "cannot attach shared folder %zu", index);
    return 0;
}

/* Something of the host that is visible inside under its own name: a mount that is not attached
 * anywhere yet, or a link (as /lib on a merged /usr). */
struct sight {
    const char *path;
    int tree; /* -1 for a link */
    bool is_folder;
    char link[64];
};

static int look_at(const char *path, struct sight *sight, struct error *err)
{
    struct stat status;
    *sight = (struct sight){.tree = -1};
    if (lstat(path, &status) < 0)
        return 0;
    sight->path = path;
    sight->is_folder = S_ISDIR(status.st_mode);
    if (S_ISLNK(status.st_mode))
        return readlink(path, sight->link, sizeof sight->link - 1) < 0
                   ? error_errno(err, errno, "cannot read link %s", path)
                   : 0;
    sight->tree = mount_clone_all(path, SHOWN | MOUNT_ATTR_RDONLY, err);
    return sight->tree < 0 ? -1 : 0;
}

static int show(const struct sight *sight, struct error *err)
{
    cleanup_free char *target = xasprintf(".%s", sight->path);
    cleanup_free char *parent = xstrdup(target);
    *strrchr(parent, '/') = '\0';
    if (strcmp(parent, ".") != 0 && folder_make(parent, 0755, err) < 0)
        return -1;
    int made = sight->tree < 0    ? symlink(sight->link, target)
               : sight->is_folder ? mkdir(target, 0755)
                                  : mknod(target, S_IFREG | 0644, 0);
    if (made < 0 || (sight->tree >= 0 &&
                     move_mount(sight->tree, "", AT_FDCWD, target, MOVE_MOUNT_F_EMPTY_PATH) < 0))
        return error_errno(err, errno, "cannot show %s", sight->path);
    return 0;
}

static int look_at_each(const char *const *paths, struct sight *sights, size_t room, size_t *count,
                        struct error *err)
{
    int result = 0;
    for (size_t i = 0; paths[i] && result == 0 && *count < room; i++)
        result = look_at(paths[i], &sights[(*count)++], err);
    return result;
}

static int look_at_all(const struct confinement *confinement, struct sight *sights, size_t room,
                       size_t *count, struct error *err)
{
    int result = look_at(confinement->argv[0], &sights[(*count)++], err);
    if (result == 0)
        result = look_at_each(confine_libraries, sights, room, count, err);
    if (result == 0 && !confinement->is_frozen)
        result = look_at_each(confine_firmware, sights, room, count, err);
    return result < 0 ? result : look_at_each(confinement->files, sights, room, count, err);
}

static int become_user(bool drop_groups, struct error *err)
{
    if ((drop_groups && setgroups(0, NULL) < 0) ||
        setresgid(CONFINE_USER, CONFINE_USER, CONFINE_USER) < 0 ||
        setresuid(CONFINE_USER, CONFINE_USER, CONFINE_USER) < 0)
        return error_errno(err, errno, "cannot change the user");
    return 0;
}

/*
 * Only the processes' own folders of it: QEMU changes modes by way of /proc/self/fd. Where parts of
 * /proc are covered, as in containers, the kernel refuses a fresh one: of the old one, QEMU's own
 * folder is shown.
 */
static int mount_proc(int own, struct error *err)
{
    static const struct mount_option options[] = {{"subset", "pid"}, {0}};
    cleanup_fd int tree = mount_make("proc", options, SHOWN | MOUNT_ATTR_NOEXEC, err);
    bool is_whole = tree >= 0;
    if (!is_whole && (err->code != ERROR_DENIED || own < 0))
        return -1;
    if (mkdir("./proc", 0755) < 0 || (!is_whole && mkdir("./proc/self", 0755) < 0))
        return error_errno(err, errno, "cannot make a place for proc");
    return is_whole ? mount_attach(tree, AT_FDCWD, "./proc", err)
                    : mount_attach(own, AT_FDCWD, "./proc/self", err);
}

static int furnish(const struct confinement *confinement, const struct sight *sights, size_t count,
                   const int *volume_trees, int own_process, struct error *err)
{
    int result = confinement->is_frozen
                     ? put_file("." CONFINE_THAW, thaw_begin, EMBED_SIZE(thaw), err)
                     : put_libraries(err);
    for (size_t i = 0; i < count && result == 0; i++)
        result = sights[i].path ? show(&sights[i], err) : 0;
    if (result == 0 && mkdir("." CONFINE_VOLUMES, 0755) < 0)
        result = error_errno(err, errno, "cannot make a place for shared folders");
    for (size_t i = 0; i < confinement->volume_count && result == 0; i++)
        result = attach_volume(volume_trees[i], i, err);
    /* Without shared folders nothing needs it. */
    if (result == 0 && confinement->volume_count)
        result = mount_proc(own_process, err);
    return result;
}

/* By descriptors throughout: the new user may not look up the place by its name. */
static int enter_fresh_root(int place, struct error *err)
{
    static const struct mount_option options[] = {{"mode", "0755"}, {"size", "1m"}, {0}};
    cleanup_fd int root = mount_make("tmpfs", options, SHOWN, err);
    if (root < 0 || mount_attach(root, place, "", err) < 0)
        return -1;
    return fchdir(root) == 0 ? 0 : error_errno(err, errno, "cannot enter a fresh root");
}

/*
 * Host paths are looked up while we are still who we were: the new user may not even enter the
 * home folder. Only the new user can make files in the new root, for only its id exists there.
 */
int confine_enter_root(const struct confinement *confinement, int *volume_trees, bool as_root,
                       struct error *err)
{
    struct sight sights[16];
    size_t count = 0;
    if (mounts_make_private(err) < 0)
        return -1;
    int result = look_at_all(confinement, sights, sizeof sights / sizeof sights[0], &count, err);
    for (size_t i = 0; i < confinement->volume_count && result == 0 && !as_root; i++) {
        volume_trees[i] = mount_own_volume(&confinement->volumes[i], SHOWN, err);
        result = volume_trees[i] < 0 ? -1 : 0;
    }
    struct error unused;
    cleanup_fd int own_process = confinement->volume_count
                                     ? mount_clone("/proc/self", SHOWN | MOUNT_ATTR_NOEXEC, &unused)
                                     : -1;
    cleanup_fd int place = open(confinement->folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (result == 0 && place < 0)
        result = error_errno(err, errno, "cannot open %s", confinement->folder);
    if (result == 0)
        result = become_user(as_root, err);
    if (result == 0)
        result = enter_fresh_root(place, err);
    if (result == 0)
        result = furnish(confinement, sights, count, volume_trees, own_process, err);
    if (result < 0)
        return result;
    result = mounts_enter_here(err);
    if (result == 0 &&
        mount(NULL, "/", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV, NULL) < 0)
        result = error_errno(err, errno, "cannot make the fresh root read-only");
    return result;
}
