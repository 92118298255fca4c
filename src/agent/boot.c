#include "agent/boot.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/loopback.h"
#include "base/mem.h"

#define MODULES "/modules"
#define IMAGE "vda"
#define DISK "vdb"
#define KEPT "vdc"
#define STAGE "/.kept"
/* Numbered by the device, which stands anywhere among the machine's; it has only this one. */
#define PORT "vport"
#define DEVICE_TIMEOUT_MS 10000
#define FILES_MAX 65536
/* From <linux/fs.h>, which musl does not bring. */
#define BLKFLSBUF_REQUEST 0x1261
#define FIFREEZE_REQUEST _IOWR('X', 119, int)
#define FITHAW_REQUEST _IOWR('X', 120, int)

struct mount_point {
    const char *source, *target, *type;
    unsigned long flags;
    const char *options;
};

/* The image is hostile: where a folder has to be, a link or a file gives way. */
static int make_folder(const char *path, struct error *err)
{
    struct stat status;
    if (lstat(path, &status) == 0) {
        if (S_ISDIR(status.st_mode))
            return 0;
        unlink(path);
    }
    if (mkdir(path, 0755) < 0)
        return error_errno(err, errno, "cannot create folder %s", path);
    return 0;
}

static int mount_all(const struct mount_point *points, size_t count, struct error *err)
{
    for (size_t i = 0; i < count; i++) {
        const struct mount_point *at = &points[i];
        int result = make_folder(at->target, err);
        if (result < 0)
            return result;
        if (mount(at->source, at->target, at->type, at->flags, at->options) < 0)
            return error_errno(err, errno, "cannot mount %s (%s)", at->target, at->type);
    }
    return 0;
}

#define MOUNT_ALL(points, err) mount_all(points, sizeof(points) / sizeof(points)[0], err)

static int mount_early(struct error *err)
{
    static const struct mount_point points[] = {
        {"proc", "/proc", "proc", MS_NODEV | MS_NOEXEC | MS_NOSUID, NULL},
        {"sysfs", "/sys", "sysfs", MS_NODEV | MS_NOEXEC | MS_NOSUID, NULL},
        {"devtmpfs", "/dev", "devtmpfs", MS_NOSUID, "mode=0755"},
    };
    return MOUNT_ALL(points, err);
}

/* The kernel opens the console for its first process only if the initramfs has the node. */
static void open_console(void)
{
    if (fcntl(2, F_GETFD) >= 0)
        return;
    int fd = open("/dev/console", O_RDWR | O_NOCTTY);
    if (fd < 0)
        fd = open("/dev/null", O_RDWR);
    for (int i = 0; i < 3; i++) {
        if (fd != i)
            dup2(fd, i);
    }
    if (fd > 2)
        close(fd);
}

static int load_module(const char *name, struct error *err)
{
    cleanup_free char *path = xasprintf("%s/%s", MODULES, name);
    cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return error_errno(err, errno, "cannot open module %s", path);
    if (syscall(SYS_finit_module, fd, "", 0) < 0 && errno != EEXIST)
        return error_errno(err, errno, "cannot load module %s", path);
    unlink(path);
    return 0;
}

static int load_modules(struct error *err)
{
    cleanup_buf struct buf order = {0};
    if (!file_exists(MODULES "/order"))
        return 0;
    int result = file_read(MODULES "/order", 65536, &order, err);
    if (result < 0)
        return result;
    buf_text(&order);
    char *rest = (char *)buf_data(&order);
    for (const char *line; (line = strsep(&rest, "\n"));) {
        if (line[0] && (result = load_module(line, err)) < 0)
            return result;
    }
    return 0;
}

/* The path of the device whose name begins like this; NULL when there is none. */
static char *find_device(const char *prefix)
{
    DIR *folder = opendir("/dev");
    char *found = NULL;
    const struct dirent *entry;
    while (folder && !found && (entry = readdir(folder))) {
        if (strncmp(entry->d_name, prefix, strlen(prefix)) == 0)
            found = xasprintf("/dev/%s", entry->d_name);
    }
    if (folder)
        closedir(folder);
    return found;
}

/* Devices show up in /dev when their drivers have found them. */
static char *wait_for_device(const char *prefix, struct error *err)
{
    uint64_t deadline = clock_monotonic_ms() + DEVICE_TIMEOUT_MS;
    cleanup_fd int watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (watch < 0 || inotify_add_watch(watch, "/dev", IN_CREATE) < 0) {
        error_errno(err, errno, "cannot watch /dev");
        return NULL;
    }
    char *found;
    while (!(found = find_device(prefix))) {
        uint64_t now = clock_monotonic_ms();
        struct pollfd wait = {.fd = watch, .events = POLLIN};
        if (now >= deadline || poll(&wait, 1, (int)(deadline - now)) == 0) {
            error_set(err, ERROR_TIMEOUT, "device /dev/%s did not appear", prefix);
            return NULL;
        }
        char events[4096];
        ssize_t ignored = read(watch, events, sizeof events);
        (void)ignored;
    }
    return found;
}

static int mount_root(struct error *err)
{
    static const struct mount_point disks[] = {
        {"/dev/" IMAGE, "/lower", "erofs", MS_RDONLY | MS_NOATIME, NULL},
        {"/dev/" DISK, "/writable", "ext4", MS_NOATIME, "barrier=0,noauto_da_alloc,noinit_itable"},
    };
    static const struct mount_point root[] = {
        {"root", "/new", "overlay", MS_NOATIME,
         "lowerdir=/lower,upperdir=/writable/upper,workdir=/writable/work"},
    };
    cleanup_free char *image = wait_for_device(IMAGE, err);
    cleanup_free char *disk = image ? wait_for_device(DISK, err) : NULL;
    if (!disk)
        return -1;
    int result = MOUNT_ALL(disks, err);
    if (result == 0)
        result = make_folder("/writable/upper", err);
    if (result == 0)
        result = make_folder("/writable/work", err);
    return result < 0 ? result : MOUNT_ALL(root, err);
}

static int mount_inside(struct error *err)
{
    const unsigned long quiet = MS_NODEV | MS_NOEXEC | MS_NOSUID;
    const struct mount_point points[] = {
        {"proc", "/new/proc", "proc", quiet, NULL},
        {"sysfs", "/new/sys", "sysfs", quiet, NULL},
        {"cgroup2", "/new/sys/fs/cgroup", "cgroup2", quiet, NULL},
        {"devtmpfs", "/new/dev", "devtmpfs", MS_NOSUID, "mode=0755"},
        {"devpts", "/new/dev/pts", "devpts", MS_NOEXEC | MS_NOSUID, "gid=5,mode=620,ptmxmode=666"},
        {"tmpfs", "/new/dev/shm", "tmpfs", MS_NODEV | MS_NOSUID, "mode=1777,size=40%"},
        {"tmpfs", "/new/run", "tmpfs", MS_NODEV | MS_NOSUID, "mode=0755,size=10%"},
    };
    int result = MOUNT_ALL(points, err);
    if (result == 0)
        result = make_folder("/new/tmp", err);
    if (result == 0)
        chmod("/new/tmp", 01777);
    return result;
}

static void link_descriptors(void)
{
    static const char *const links[][2] = {
        {"/proc/self/fd", "/new/dev/fd"},
        {"/proc/self/fd/0", "/new/dev/stdin"},
        {"/proc/self/fd/1", "/new/dev/stdout"},
        {"/proc/self/fd/2", "/new/dev/stderr"},
    };
    for (size_t i = 0; i < sizeof links / sizeof links[0]; i++) {
        if (symlink(links[i][0], links[i][1]) < 0 && errno != EEXIST)
            perror(links[i][1]);
    }
}

/* The mounts of before stay behind under the new root, out of reach; the files are freed. */
static int switch_root(struct error *err)
{
    unlink(MODULES "/order");
    unlink("/init");
    umount2("/dev", MNT_DETACH);
    umount2("/sys", MNT_DETACH);
    umount2("/proc", MNT_DETACH);
    if (chdir("/new") < 0 || mount(".", "/", NULL, MS_MOVE, NULL) < 0 || chroot(".") < 0 ||
        chdir("/") < 0)
        return error_errno(err, errno, "cannot enter the image");
    return 0;
}

static void write_setting(const char *path, const char *value)
{
    cleanup_fd int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, value, strlen(value)) < 0)
        perror(path);
}

static void settle_in(void)
{
    /* Requests cost more than bytes here: the image is a file in the host's memory. */
    write_setting("/sys/block/" IMAGE "/queue/read_ahead_kb", "1024");
    struct rlimit files = {.rlim_cur = FILES_MAX, .rlim_max = FILES_MAX};
    setrlimit(RLIMIT_NOFILE, &files);
    write_setting("/sys/fs/cgroup/cgroup.subtree_control", "+cpu +memory +pids");
    write_setting("/proc/sys/kernel/printk", "1");
    write_setting("/proc/sys/kernel/panic_print", "0");
    /* A machine that would throw away what it used a second ago kills the largest process instead:
     * otherwise programs and their files push each other out of memory for minutes first. */
    write_setting("/sys/kernel/mm/lru_gen/enabled", "y");
    write_setting("/sys/kernel/mm/lru_gen/min_ttl_ms", "1000");
    /* There is next to nothing to add up every second, and nothing that would profit from memory in
     * larger pieces: a machine that idles is to do just that. */
    write_setting("/proc/sys/vm/stat_interval", "3600");
    write_setting("/proc/sys/vm/compaction_proactiveness", "0");
    /* Who waits until no processor looks at something any more asks the few there are, instead of
     * letting some ticks go by. */
    write_setting("/sys/kernel/rcu_expedited", "1");
    loopback_bring_up();
}

static int kept_disk = -1; /* its root, which has no path any more */

/* The device for us alone: not while it is mounted. */
static int claim(const char *device, struct error *err)
{
    int fd = open(device, O_RDONLY | O_EXCL | O_CLOEXEC);
    return fd < 0 ? error_errno(err, errno, "cannot open %s", device) : fd;
}

/* It was looked at when the template booted, and was another one then. */
static int forget_contents(const char *device, struct error *err)
{
    cleanup_fd int fd = claim(device, err);
    if (fd < 0)
        return fd;
    return ioctl(fd, BLKFLSBUF_REQUEST) < 0 ? error_errno(err, errno, "cannot reread %s", device)
                                            : 0;
}

static int build_kept_root(struct error *err)
{
    static const struct mount_point points[] = {
        {"/dev/" IMAGE, STAGE "/lower", "erofs", MS_RDONLY | MS_NOATIME, NULL},
        {"/dev/" KEPT, STAGE "/disk", "ext4", MS_NOATIME, "noinit_itable"},
    };
    static const struct mount_point root[] = {
        {"root", STAGE "/root", "overlay", MS_NOATIME,
         "lowerdir=" STAGE "/lower,upperdir=" STAGE "/disk/upper,workdir=" STAGE "/disk/work"},
    };
    int result = forget_contents("/dev/" KEPT, err);
    if (result == 0)
        result = make_folder(STAGE, err);
    if (result == 0)
        result = MOUNT_ALL(points, err);
    if (result == 0)
        result = make_folder(STAGE "/disk/upper", err);
    if (result == 0)
        result = make_folder(STAGE "/disk/work", err);
    return result < 0 ? result : MOUNT_ALL(root, err);
}

static int move_mounts(struct error *err)
{
    static const char *const moved[] = {"/proc", "/sys", "/dev", "/run"};
    for (size_t i = 0; i < sizeof moved / sizeof moved[0]; i++) {
        cleanup_free char *target = xasprintf(STAGE "/root%s", moved[i]);
        int result = make_folder(target, err);
        if (result < 0)
            return result;
        if (mount(moved[i], target, NULL, MS_MOVE, NULL) < 0)
            return error_errno(err, errno, "cannot move %s", moved[i]);
    }
    int result = make_folder(STAGE "/root/tmp", err);
    if (result == 0)
        chmod(STAGE "/root/tmp", 01777);
    return result;
}

int boot_move_to_kept_disk(struct error *err)
{
    int result = build_kept_root(err);
    if (result == 0)
        result = move_mounts(err);
    if (result < 0)
        return result;
    kept_disk = open(STAGE "/disk", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (kept_disk < 0 || chdir(STAGE "/root") < 0 || syscall(SYS_pivot_root, ".", ".") < 0 ||
        umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
        return error_errno(err, errno, "cannot enter the kept disk");
    return 0;
}

void boot_seal_kept_disk(void)
{
    if (kept_disk < 0 || ioctl(kept_disk, FIFREEZE_REQUEST, 0) < 0)
        sync();
}

static _Noreturn void try_apart(int (*part)(struct error *))
{
    struct error err;
    if (unshare(CLONE_NEWNS) < 0)
        error_errno(&err, errno, "cannot have mounts of its own");
    else if (part(&err) == 0) {
        boot_seal_kept_disk();
        ioctl(kept_disk, FITHAW_REQUEST, 0);
        _exit(0);
    }
    fprintf(stderr, "%s\n", err.message);
    _exit(1);
}

int boot_rehearse_kept_disk(int (*part)(struct error *), struct error *err)
{
    int status;
    pid_t child = fork();
    if (child == 0)
        try_apart(part);
    if (child < 0 || waitpid(child, &status, 0) < 0)
        return error_errno(err, errno, "cannot rehearse");
    if (status != 0)
        return error_set(err, ERROR_IO, "a rehearsal failed");
    /* It was unmounted with the end of its last user. Copies of this machine have another disk in
     * its place: they must not find this one's contents in memory. */
    return forget_contents("/dev/" KEPT, err);
}

int boot_machine(struct error *err)
{
    umask(0);
    int result = mount_early(err);
    open_console();
    if (result == 0)
        result = load_modules(err);
    if (result == 0)
        result = mount_root(err);
    if (result == 0)
        result = mount_inside(err);
    if (result < 0)
        return result;
    link_descriptors();
    if ((result = switch_root(err)) < 0)
        return result;
    umask(022);
    settle_in();
    cleanup_free char *port = wait_for_device(PORT, err);
    if (!port)
        return -1;
    int fd = open(port, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    return fd < 0 ? error_errno(err, errno, "cannot open %s", port) : fd;
}
