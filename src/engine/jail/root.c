#include "engine/jail/root.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/fdpass.h"
#include "base/mem.h"
#include "engine/jail/saved.h"
#include "engine/mounts.h"

#define KB_PER_FILE 16
#define BOOT_ID "../boot_id"
#define QUIET (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)

/* Devices that only compute; what they are is checked, whatever the names lead to. */
static const struct {
    const char *name;
    unsigned major, minor;
} devices[] = {
    {"null", 1, 3},   {"zero", 1, 5},    {"full", 1, 7},
    {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0},
};
#define DEVICES (sizeof devices / sizeof devices[0])

/* In /proc, what tells about the host or would change it if a check were forgotten in the kernel.
 */
static const struct {
    const char *name;
    enum { COVER_FILE, COVER_FOLDER, READ_ONLY } how;
} guarded[] = {
    {"cmdline", COVER_FILE},
    {"config.gz", COVER_FILE},
    {"diskstats", COVER_FILE},
    {"interrupts", COVER_FILE},
    {"kcore", COVER_FILE},
    {"keys", COVER_FILE},
    {"key-users", COVER_FILE},
    {"kmsg", COVER_FILE},
    {"kallsyms", COVER_FILE},
    {"kpagecount", COVER_FILE},
    {"kpageflags", COVER_FILE},
    {"kpagecgroup", COVER_FILE},
    {"latency_stats", COVER_FILE},
    {"partitions", COVER_FILE},
    {"sched_debug", COVER_FILE},
    {"slabinfo", COVER_FILE},
    {"softirqs", COVER_FILE},
    {"swaps", COVER_FILE},
    {"sysrq-trigger", COVER_FILE},
    {"timer_list", COVER_FILE},
    {"vmallocinfo", COVER_FILE},
    {"modules", COVER_FILE},
    {"iomem", COVER_FILE},
    {"ioports", COVER_FILE},
    {"acpi", COVER_FOLDER},
    {"asound", COVER_FOLDER},
    {"driver", COVER_FOLDER},
    {"scsi", COVER_FOLDER},
    {"bus", READ_ONLY},
    {"fs", READ_ONLY},
    {"irq", READ_ONLY},
    {"sys", READ_ONLY},
    {"sysvipc", READ_ONLY},
};

/* The disk of a jail is memory, and may take at most half of it. */
static unsigned choose_disk_mb(const struct jail_root *root)
{
    return root->disk_mb < root->memory_mb / 2 ? root->disk_mb : root->memory_mb / 2;
}

int root_look(const struct jail_root *root, struct jail_sights *sights, struct error *err)
{
    sights->place = open(root->place, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (sights->place < 0)
        return error_errno(err, errno, "cannot open %s", root->place);
    for (size_t i = 0; i < DEVICES; i++) {
        char path[32];
        struct stat status;
        snprintf(path, sizeof path, "/dev/%s", devices[i].name);
        sights->devices[i] = mount_clone(path, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, err);
        if (sights->devices[i] < 0)
            return -1;
        if (fstat(sights->devices[i], &status) < 0 || !S_ISCHR(status.st_mode) ||
            status.st_rdev != makedev(devices[i].major, devices[i].minor))
            return error_set(err, ERROR_MISSING, "%s is not the device it should be", path);
    }
    return 0;
}

/* ---- places that an image could have shaped ------------------------------------------------ */

static int open_below(int folder, const char *path, uint64_t flags, uint64_t resolve)
{
    struct open_how how = {.flags = flags | O_CLOEXEC, .resolve = resolve};
    return (int)syscall(SYS_openat2, folder, path, &how, sizeof how);
}

/* A folder of that name right below `folder`; a link or a file in its place gives way. */
static int take_folder(int folder, const char *name, struct error *err)
{
    const uint64_t resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS;
    int fd = open_below(folder, name, O_PATH | O_DIRECTORY, resolve);
    if (fd < 0) {
        unlinkat(folder, name, 0);
        if (mkdirat(folder, name, 0755) == 0)
            fd = open_below(folder, name, O_PATH | O_DIRECTORY, resolve);
    }
    return fd >= 0 ? fd : error_errno(err, errno, "cannot make folder %s", name);
}

static int attach_at(int tree, int folder, const char *name, struct error *err)
{
    cleanup_fd int target = take_folder(folder, name, err);
    return target < 0 ? target : mount_attach(tree, target, "", err);
}

/* Like mkdir -p, with links that lead no further than the new root. */
static int take_path(int root, const char *path, struct error *err)
{
    const uint64_t resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
    cleanup_free char *part = xstrdup(path);
    for (char *end = part; *end;) {
        end += strspn(end, "/");
        end += strcspn(end, "/");
        char rest = *end;
        *end = '\0';
        char *name = strrchr(part, '/') + 1;
        cleanup_fd int there = open_below(root, part, O_PATH | O_DIRECTORY, resolve);
        if (there < 0 && name[0]) {
            char first = name[0];
            name[0] = '\0';
            cleanup_fd int parent = open_below(root, part, O_PATH | O_DIRECTORY, resolve);
            name[0] = first;
            if (parent < 0 || mkdirat(parent, name, 0755) < 0)
                return error_errno(err, errno, "cannot make folder %.200s in the sandbox", part);
        }
        *end = rest;
    }
    int fd = open_below(root, path, O_PATH | O_DIRECTORY, resolve);
    return fd >= 0 ? fd : error_errno(err, errno, "cannot enter %.200s in the sandbox", path);
}

static int attach_volumes(const struct jail_root *root, int here, struct error *err)
{
    for (size_t i = 0; i < root->volume_count; i++) {
        cleanup_fd int target = take_path(here, root->volumes[i].path, err);
        if (target < 0 || mount_attach(root->volumes[i].tree, target, "", err) < 0)
            return error_wrap(err, "cannot share a folder as %.200s", root->volumes[i].path);
    }
    return 0;
}

/* ---- the file systems ---------------------------------------------------------------------- */

static int make_memory(const char *mode, unsigned size_kb, unsigned files, struct error *err)
{
    char size[24], count[24];
    snprintf(size, sizeof size, "%uk", size_kb);
    snprintf(count, sizeof count, "%u", files);
    const struct mount_option options[] = {
        {"mode", mode}, {"size", size}, {"nr_inodes", count}, {0}};
    return mount_make("tmpfs", options, QUIET, err);
}

static int attach_memory(int folder, const char *name, const char *mode, unsigned size_kb,
                         struct error *err)
{
    cleanup_fd int tree = make_memory(mode, size_kb, size_kb / KB_PER_FILE + 64, err);
    return tree < 0 ? tree : attach_at(tree, folder, name, err);
}

/* In a small folder in memory, which is left behind with the old root, lie the image and what is
 * written over it. Returns the root of both together, attached there too. */
static int build_overlay(const struct jail_root *root, int place, struct error *err)
{
    static const struct mount_option options[] = {
        {"source", "root"},       {"lowerdir", "image"}, {"upperdir", "disk/upper"},
        {"workdir", "disk/work"}, {"userxattr", NULL},   {0}};
    unsigned disk_kb = choose_disk_mb(root) * 1024;
    cleanup_fd int stage = make_memory("0755", 64, 64, err);
    if (stage < 0 || mount_attach(stage, place, "", err) < 0)
        return -1;
    unsigned files = root->files ? root->files : disk_kb / KB_PER_FILE;
    cleanup_fd int disk = root->disk >= 0 ? root->disk : make_memory("0755", disk_kb, files, err);
    if (disk < 0 || attach_at(disk, stage, "disk", err) < 0 ||
        attach_at(root->image, stage, "image", err) < 0)
        return -1;
    if ((mkdirat(disk, "upper", 0755) < 0 && errno != EEXIST) ||
        (mkdirat(disk, "work", 0755) < 0 && errno != EEXIST) ||
        (root->keeper >= 0 && fdpass_send(root->keeper, "", 1, disk) < 0))
        return error_errno(err, errno, "cannot make the jail's disk");
    if (root->archive >= 0 && saved_unpack(root->archive, disk, err) < 0)
        return -1;
    if (fchdir(stage) < 0)
        return error_errno(err, errno, "cannot enter the new root");
    cleanup_fd int tree = mount_make("overlay", options, QUIET, err);
    if (tree < 0 || attach_at(tree, stage, "root", err) < 0)
        return -1;
    return fchdir(tree) == 0 ? steal_fd(&tree) : error_errno(err, errno, "cannot enter the image");
}

/* The names are of /proc's own entries, so they are safe; what a kernel lacks needs no cover. */
static int cover_file(const char *path, int with, struct error *err)
{
    cleanup_fd int copy = open_tree(with, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    return copy < 0 ? error_errno(err, errno, "cannot cover /%s", path)
                    : mount_attach(copy, AT_FDCWD, path, err);
}

static int cover_folder(const char *path, struct error *err)
{
    cleanup_fd int nothing = make_memory("0555", 4, 1, err);
    return nothing < 0 ? nothing : mount_attach(nothing, AT_FDCWD, path, err);
}

static int protect(const char *path, struct error *err)
{
    cleanup_fd int tree = mount_clone(path, QUIET | MOUNT_ATTR_NOEXEC | MOUNT_ATTR_RDONLY, err);
    return tree < 0 ? tree : mount_attach(tree, AT_FDCWD, path, err);
}

static int narrow_proc(int null, struct error *err)
{
    int result = 0;
    for (size_t i = 0; result == 0 && i < sizeof guarded / sizeof guarded[0]; i++) {
        char path[64];
        snprintf(path, sizeof path, "proc/%s", guarded[i].name);
        if (access(path, F_OK) < 0)
            continue;
        switch (guarded[i].how) {
        case COVER_FILE:
            result = cover_file(path, null, err);
            break;
        case COVER_FOLDER:
            result = cover_folder(path, err);
            break;
        case READ_ONLY:
            result = protect(path, err);
        }
    }
    return result;
}

static void write_setting(const char *path, const char *value)
{
    cleanup_fd int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, value, strlen(value)) < 0)
        perror(path);
}

/* No namespaces within, whichever call asks; and low ports for everybody, for nobody in here has
 * the capability that they need otherwise. */
static void set_kernel(void)
{
    write_setting("proc/sys/user/max_user_namespaces", "0");
    write_setting("proc/sys/net/ipv4/ip_unprivileged_port_start", "0");
}

/* Who could read it would know which sandboxes share a host. The file lies beside the new root, in
 * the folder that is left behind. */
static int cover_boot_id(struct error *err)
{
    uint8_t random[16];
    char text[40];
    if (getrandom(random, sizeof random, 0) != sizeof random)
        return error_errno(err, errno, "cannot get random bytes");
    int length = 0;
    for (size_t i = 0; i < sizeof random; i++)
        length += snprintf(text + length, sizeof text - (size_t)length, "%s%02x",
                           i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", random[i]);
    text[length++] = '\n';
    cleanup_fd int file = open(BOOT_ID, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
    if (file < 0 || write(file, text, (size_t)length) != length)
        return error_errno(err, errno, "cannot make a boot id");
    cleanup_fd int tree = mount_clone(BOOT_ID, QUIET | MOUNT_ATTR_NOEXEC | MOUNT_ATTR_RDONLY, err);
    return tree < 0 ? tree : mount_attach(tree, AT_FDCWD, "proc/sys/kernel/random/boot_id", err);
}

static int mount_proc(int here, const struct jail_sights *sights, struct error *err)
{
    cleanup_fd int tree = mount_make("proc", NULL, QUIET | MOUNT_ATTR_NOEXEC, err);
    if (tree < 0) {
        error_hint(err, "the host's own /proc must be mounted in full, with nothing over it");
        return -1;
    }
    int result = attach_at(tree, here, "proc", err);
    if (result < 0)
        return result;
    set_kernel();
    result = narrow_proc(sights->devices[0], err);
    return result < 0 ? result : cover_boot_id(err);
}

static int mount_terminals(const struct jail_root *root, int dev, struct error *err)
{
    static const struct mount_option options[] = {
        {"gid", "5"}, {"mode", "620"}, {"ptmxmode", "666"}, {"newinstance", NULL}, {0}};
    cleanup_fd int tree = mount_make("devpts", root->has_groups ? options : options + 1,
                                     MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC, err);
    return tree < 0 ? tree : attach_at(tree, dev, "pts", err);
}

static int mount_dev(const struct jail_root *root, const struct jail_sights *sights, int here,
                     struct error *err)
{
    static const char *const links[][2] = {
        {"pts/ptmx", "ptmx"},          {"/proc/self/fd", "fd"},       {"/proc/self/fd/0", "stdin"},
        {"/proc/self/fd/1", "stdout"}, {"/proc/self/fd/2", "stderr"},
    };
    cleanup_fd int dev = make_memory("0755", 64, 64, err);
    if (dev < 0 || attach_at(dev, here, "dev", err) < 0)
        return -1;
    for (size_t i = 0; i < DEVICES; i++) {
        if (mknodat(dev, devices[i].name, S_IFREG | 0666, 0) < 0)
            return error_errno(err, errno, "cannot make /dev/%s", devices[i].name);
        if (mount_attach(sights->devices[i], dev, devices[i].name, err) < 0)
            return -1;
    }
    for (size_t i = 0; i < sizeof links / sizeof links[0]; i++) {
        if (symlinkat(links[i][0], dev, links[i][1]) < 0)
            return error_errno(err, errno, "cannot make /dev/%s", links[i][1]);
    }
    int result = mount_terminals(root, dev, err);
    return result < 0 ? result : attach_memory(dev, "shm", "1777", root->memory_mb * 512, err);
}

static int furnish(const struct jail_root *root, const struct jail_sights *sights, int here,
                   struct error *err)
{
    int result = attach_memory(here, "run", "0755", root->memory_mb * 100, err);
    if (result == 0)
        result = mount_dev(root, sights, here, err);
    if (result == 0 && !root->bare)
        result = mount_proc(here, sights, err);
    if (result < 0)
        return result;
    cleanup_fd int tmp = take_folder(here, "tmp", err);
    if (tmp < 0)
        return tmp;
    if (fchmodat(here, "tmp", 01777, 0) < 0)
        return error_errno(err, errno, "cannot open /tmp to everybody");
    return attach_volumes(root, here, err);
}

int root_enter(const struct jail_root *root, const struct jail_sights *sights, struct error *err)
{
    umask(0);
    int result = mounts_make_private(err);
    cleanup_fd int here = result < 0 ? -1 : build_overlay(root, sights->place, err);
    if (here < 0)
        return -1;
    result = furnish(root, sights, here, err);
    if (result == 0)
        result = mounts_enter_here(err);
    umask(022);
    return result;
}
