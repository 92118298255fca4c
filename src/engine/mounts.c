#include "engine/mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "engine/ids.h"

static int try_here(const char *type)
{
    cleanup_fd int system = fsopen(type, FSOPEN_CLOEXEC);
    return system < 0 ? errno : 0;
}

/* An ordinary user may ask in a user namespace of his own. */
int mount_try_type(const char *type)
{
    int status, result = try_here(type);
    if (result != EPERM)
        return result;
    pid_t child =
        (pid_t)syscall(SYS_clone, CLONE_NEWUSER | CLONE_NEWNS | SIGCHLD, NULL, NULL, NULL, NULL);
    if (child == 0)
        _exit(try_here(type));
    if (child < 0)
        return errno;
    while (waitpid(child, &status, 0) < 0) {
        if (errno != EINTR)
            return errno;
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : EPERM;
}

int mount_make(const char *type, const struct mount_option *options, unsigned attributes,
               struct error *err)
{
    cleanup_fd int system = fsopen(type, FSOPEN_CLOEXEC);
    bool good = system >= 0;
    for (; good && options && options->key; options++)
        good = fsconfig(system, options->value ? FSCONFIG_SET_STRING : FSCONFIG_SET_FLAG,
                        options->key, options->value, 0) == 0;
    if (!good || fsconfig(system, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
        return error_errno(err, errno, "cannot make a file system (%s)", type);
    int tree = fsmount(system, FSMOUNT_CLOEXEC, attributes);
    return tree >= 0 ? tree : error_errno(err, errno, "cannot mount a file system (%s)", type);
}

static int restrict_tree(int given, unsigned attributes, const char *path, struct error *err)
{
    cleanup_fd int tree = given;
    struct mount_attr changes = {.attr_set = attributes};
    if (tree < 0 ||
        mount_setattr(tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &changes, sizeof changes) < 0)
        return error_errno(err, errno, "cannot show %s", path);
    return steal_fd(&tree);
}

int mount_clone(const char *path, unsigned attributes, struct error *err)
{
    int tree = open_tree(AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    return restrict_tree(tree, attributes, path, err);
}

/* A user namespace may not see below what its owner has mounted, so it gets all or nothing. */
int mount_clone_all(const char *path, unsigned attributes, struct error *err)
{
    int tree = open_tree(AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
    return restrict_tree(tree, attributes, path, err);
}

/* Its path was resolved when it was allowed: a link in it now was put there since. */
static int clone_volume(const char *path)
{
    struct open_how how = {.flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
                           .resolve = RESOLVE_NO_SYMLINKS};
    cleanup_fd int folder = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how);
    if (folder < 0)
        return -1;
    return open_tree(folder, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
}

int mount_own_volume(const struct machine_volume *volume, unsigned attributes, struct error *err)
{
    return restrict_tree(clone_volume(volume->host_path),
                         attributes | (volume->read_only ? MOUNT_ATTR_RDONLY : 0),
                         volume->host_path, err);
}

int mount_volume(const struct machine_volume *volume, uid_t user, struct error *err)
{
    struct stat status;
    cleanup_fd int tree = clone_volume(volume->host_path);
    if (tree < 0 || fstat(tree, &status) < 0)
        return error_errno(err, errno, "cannot share folder %s", volume->host_path);
    cleanup_fd int space = ids_translation(status.st_uid, status.st_gid, user, err);
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

int mount_attach(int tree, int at, const char *name, struct error *err)
{
    unsigned flags = MOVE_MOUNT_F_EMPTY_PATH | (name[0] ? 0 : MOVE_MOUNT_T_EMPTY_PATH);
    if (move_mount(tree, "", at, name, flags) < 0)
        return error_errno(err, errno, "cannot attach a mount at %s", name[0] ? name : "its place");
    return 0;
}

int mounts_make_private(struct error *err)
{
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return error_errno(err, errno, "cannot make mounts private");
    return 0;
}

/* Pivoted upon itself, the old root lies over the new one until it is detached. */
int mounts_enter_here(struct error *err)
{
    if (syscall(SYS_pivot_root, ".", ".") < 0 || umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
        return error_errno(err, errno, "cannot enter the new root");
    return 0;
}
