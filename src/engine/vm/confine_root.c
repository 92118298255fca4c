#include "engine/vm/confine_root.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"

/* What QEMU reads: the loader and libraries, its firmware. All of it is the distribution's. */
static const char *const shown[] = {
    "/usr/lib",           "/usr/lib64",          "/lib", "/lib64", "/usr/share/qemu",
    "/usr/share/seabios", "/usr/share/qemu-efi", NULL,
};

/* A user namespace that translates one host id to another, as a descriptor. */
static int translation(uid_t from_user, gid_t from_group, uid_t to, struct error *err)
{
    pid_t holder = (pid_t)syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, NULL);
    if (holder < 0)
        return error_errno(err, errno, "cannot make a user namespace");
    if (holder == 0) {
        for (;;)
            pause();
    }
    int result = -1;
    cleanup_free char *users = xasprintf("%u %u 1\n", from_user, to);
    cleanup_free char *groups = xasprintf("%u %u 1\n", from_group, to);
    cleanup_free char *users_path = xasprintf("/proc/%d/uid_map", (int)holder);
    cleanup_free char *groups_path = xasprintf("/proc/%d/gid_map", (int)holder);
    cleanup_free char *space_path = xasprintf("/proc/%d/ns/user", (int)holder);
    cleanup_fd int users_fd = open(users_path, O_WRONLY | O_CLOEXEC);
    cleanup_fd int groups_fd = open(groups_path, O_WRONLY | O_CLOEXEC);
    if (users_fd >= 0 && groups_fd >= 0 && file_write_all(users_fd, users, strlen(users)) == 0 &&
        file_write_all(groups_fd, groups, strlen(groups)) == 0)
        result = open(space_path, O_RDONLY | O_CLOEXEC);
    int reason = errno;
    kill(holder, SIGKILL);
    waitpid(holder, NULL, 0);
    return result >= 0 ? result : error_errno(err, reason, "cannot translate file owners");
}

int confine_prepare_volume(const struct machine_volume *volume, uid_t user, struct error *err)
{
    struct stat status;
    cleanup_fd int tree =
        open_tree(AT_FDCWD, volume->host_path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    if (tree < 0 || fstat(tree, &status) < 0)
        return error_errno(err, errno, "cannot share folder %s", volume->host_path);
    cleanup_fd int space = translation(status.st_uid, status.st_gid, user, err);
    if (space < 0)
        return space;
    struct mount_attr attributes = {
        .attr_set = MOUNT_ATTR_IDMAP | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
                    (volume->read_only ? MOUNT_ATTR_RDONLY : 0),
        .userns_fd = (unsigned)space,
    };
    if (mount_setattr(tree, "", AT_EMPTY_PATH, &attributes, sizeof attributes) < 0) {
        error_errno(err, errno,
                    "cannot share folder %s: its file system does not let owners be "
                    "translated",
                    volume->host_path);
        return error_hint(err, "use a folder on ext4, xfs or btrfs, or run msb as the folder's "
                               "owner instead of root");
    }
    return steal_fd(&tree);
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

static int clone_tree(const char *path, bool read_only, struct error *err)
{
    cleanup_fd int tree = open_tree(AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    struct mount_attr attributes = {
        .attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | (read_only ? MOUNT_ATTR_RDONLY : 0),
    };
    if (tree < 0 || mount_setattr(tree, "", AT_EMPTY_PATH, &attributes, sizeof attributes) < 0)
        return error_errno(err, errno, "cannot show %s", path);
    return steal_fd(&tree);
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
    sight->tree = clone_tree(path, true, err);
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

static int look_at_all(const struct confinement *confinement, struct sight *sights, size_t room,
                       size_t *count, struct error *err)
{
    int result = look_at(confinement->argv[0], &sights[(*count)++], err);
    for (size_t i = 0; shown[i] && result == 0 && *count < room; i++)
        result = look_at(shown[i], &sights[(*count)++], err);
    for (size_t i = 0; confinement->files[i] && result == 0 && *count < room; i++)
        result = look_at(confinement->files[i], &sights[(*count)++], err);
    return result;
}

static int become_user(bool drop_groups, struct error *err)
{
    if ((drop_groups && setgroups(0, NULL) < 0) ||
        setresgid(CONFINE_USER, CONFINE_USER, CONFINE_USER) < 0 ||
        setresuid(CONFINE_USER, CONFINE_USER, CONFINE_USER) < 0)
        return error_errno(err, errno, "cannot change the user");
    return 0;
}

/* Only the processes' own folders of it: QEMU changes modes by way of /proc/self/fd. */
static int mount_proc(struct error *err)
{
    cleanup_fd int system = fsopen("proc", FSOPEN_CLOEXEC);
    if (system < 0 || fsconfig(system, FSCONFIG_SET_STRING, "subset", "pid", 0) < 0 ||
        fsconfig(system, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        return error_errno(err, errno, "cannot make a proc file system");
    cleanup_fd int tree =
        fsmount(system, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
    if (tree < 0 || mkdir("./proc", 0755) < 0 ||
        move_mount(tree, "", AT_FDCWD, "./proc", MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return error_errno(err, errno, "cannot mount a proc file system");
    return 0;
}

static int furnish(const struct confinement *confinement, const struct sight *sights, size_t count,
                   const int *volume_trees, struct error *err)
{
    int result = 0;
    for (size_t i = 0; i < count && result == 0; i++)
        result = sights[i].path ? show(&sights[i], err) : 0;
    if (result == 0 && mkdir("." CONFINE_VOLUMES, 0755) < 0)
        result = error_errno(err, errno, "cannot make a place for shared folders");
    for (size_t i = 0; i < confinement->volume_count && result == 0; i++)
        result = attach_volume(volume_trees[i], i, err);
    /* Without shared folders nothing needs it. */
    if (result == 0 && confinement->volume_count)
        result = mount_proc(err);
    return result;
}

/* By descriptors throughout: the new user may not look up the place by its name. */
static int enter_fresh_root(int place, struct error *err)
{
    cleanup_fd int system = fsopen("tmpfs", FSOPEN_CLOEXEC);
    if (system < 0 || fsconfig(system, FSCONFIG_SET_STRING, "mode", "0755", 0) < 0 ||
        fsconfig(system, FSCONFIG_SET_STRING, "size", "1m", 0) < 0 ||
        fsconfig(system, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        return error_errno(err, errno, "cannot make a fresh root");
    cleanup_fd int root = fsmount(system, FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV);
    if (root < 0 ||
        move_mount(root, "", place, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0 ||
        fchdir(root) < 0)
        return error_errno(err, errno, "cannot mount a fresh root");
    return 0;
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
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return error_errno(err, errno, "cannot make mounts private");
    int result = look_at_all(confinement, sights, sizeof sights / sizeof sights[0], &count, err);
    for (size_t i = 0; i < confinement->volume_count && result == 0 && !as_root; i++) {
        const struct machine_volume *volume = &confinement->volumes[i];
        volume_trees[i] = clone_tree(volume->host_path, volume->read_only, err);
        result = volume_trees[i] < 0 ? -1 : 0;
    }
    cleanup_fd int place = open(confinement->folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (result == 0 && place < 0)
        result = error_errno(err, errno, "cannot open %s", confinement->folder);
    if (result == 0)
        result = become_user(as_root, err);
    if (result == 0)
        result = enter_fresh_root(place, err);
    if (result == 0)
        result = furnish(confinement, sights, count, volume_trees, err);
    if (result < 0)
        return result;

    /* The old root lies under the new one afterwards and is let go of as a whole. */
    if (syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0 || chdir("/") < 0 ||
        mount(NULL, "/", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV, NULL) < 0)
        return error_errno(err, errno, "cannot enter the fresh root");
    return 0;
}
