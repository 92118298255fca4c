/*
 * Groups are named after the process that made them: ROOT/msb/PID. That needs no registry, is
 * unique while it matters, and tells a sweep whether anybody still wants the group.
 *
 * ROOT is, in version 2, the nearest unit above the process that systemd has delegated to its user.
 * Where there is none, it is the top of the hierarchy for root, and for an ordinary user the
 * topmost group that is his. There msb lies beside the units. systemd leaves it alone, for its name
 * is no unit's, and cannot take controllers away that the groups below it use: the kernel refuses
 * that. A scope of its own for each sandbox would be tidier, and a question to systemd before every
 * start.
 */
#include "engine/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/cgroup_internal.h"

#define CPU_PERIOD_US 100000

#define CPU 2
#define LETTING_GO_NS 2000000
#define LETTING_GO_TIMES 100
#define VACATE_TIMES 10
#define MOST_PROCESSES 1048576 /* bytes of their list */

static bool put(const char *folder, const char *file, const char *text)
{
    cleanup_free char *path = xasprintf("%s/%s", folder, file);
    cleanup_fd int fd = open(path, O_WRONLY | O_CLOEXEC);
    return fd >= 0 && file_write_all(fd, text, strlen(text)) == 0;
}

static void put_number(const char *folder, const char *file, uint64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%" PRIu64, value);
    put(folder, file, text);
}

/* A file of the other version, or of a controller that is off, is simply not there. */
static void set_limits(const char *folder, const struct cgroup_limits *limits)
{
    put_number(folder, "memory.max", limits->memory_bytes);
    put_number(folder, "memory.swap.max", 0);
    put_number(folder, "memory.limit_in_bytes", limits->memory_bytes);
    put_number(folder, "memory.memsw.limit_in_bytes", limits->memory_bytes);
    put_number(folder, "pids.max", limits->processes);
}

void cgroup_limit_cpu(const struct cgroup *group, unsigned percent)
{
    uint64_t quota_us = (uint64_t)percent * (CPU_PERIOD_US / 100);
    cleanup_free char *both = xasprintf("%" PRIu64 " %d", quota_us, CPU_PERIOD_US);
    for (size_t i = 0; i < CGROUP_FOLDERS; i++) {
        if (!group->folders[i])
            continue;
        put(group->folders[i], "cpu.max", both);
        put_number(group->folders[i], "cpu.cfs_period_us", CPU_PERIOD_US);
        put_number(group->folders[i], "cpu.cfs_quota_us", quota_us);
    }
}

/* The host's defaults are a weight of 100 and shares of 1024. */
void cgroup_step_back(const struct cgroup *group, bool back)
{
    if (cgroup_is_unified() && group->tree)
        put_number(group->tree, "cpu.weight", back ? 10 : 100);
    else if (group->folders[CPU])
        put_number(group->folders[CPU], "cpu.shares", back ? 102 : 1024);
}

/* What lies in a group itself moves into one below: controllers are handed down only by groups
 * without processes. New ones may be born meanwhile, where their parents still are. */
static void vacate(const char *group)
{
    cleanup_free char *below = xasprintf("%s/supervisor", group);
    cleanup_free char *list = xasprintf("%s/cgroup.procs", group);
    cleanup_buf struct buf processes = {0};
    struct error ignored;
    mkdir(below, 0755);
    if (file_read(list, MOST_PROCESSES, &processes, &ignored) < 0)
        return;
    cleanup_free char *copy = xstrdup(buf_text(&processes));
    char *rest = copy;
    for (const char *process; (process = strsep(&rest, "\n"));)
        put(below, "cgroup.procs", process);
}

/* Whether nothing stands in the way; a controller that is not there does not. */
static bool hand_down(const char *group)
{
    if (!put(group, "cgroup.subtree_control", "+memory +pids") && errno == EBUSY)
        return false;
    put(group, "cgroup.subtree_control", "+cpu");
    return true;
}

static char *make_group(const char *hierarchy)
{
    cleanup_free char *root = cgroup_find_root(hierarchy);
    if (!root)
        return NULL;
    cleanup_free char *parent = xasprintf("%s/msb", root);
    mkdir(parent, 0755);
    if (cgroup_is_unified()) {
        for (int i = 0; !hand_down(root) && i < VACATE_TIMES; i++)
            vacate(root);
        hand_down(parent);
    }
    cleanup_free char *folder = xasprintf("%s/%d", parent, (int)getpid());
    if (mkdir(folder, 0755) < 0 && errno != EEXIST)
        return NULL;
    chmod(folder, 0755); /* whatever the umask says: an agent looks at it with an id of its own */
    return steal_pointer(&folder);
}

void cgroup_create(struct cgroup *group, const struct cgroup_limits *limits)
{
    *group = (struct cgroup){0};
    const char *const *hierarchy = cgroup_hierarchies();
    for (size_t i = 0; hierarchy[i]; i++) {
        group->folders[i] = make_group(hierarchy[i]);
        if (!group->folders[i])
            continue;
        set_limits(group->folders[i], limits);
        if (cgroup_is_version_2(hierarchy[i]))
            group->tree = group->folders[i];
    }
    group->limits_at_birth = group->folders[0] != NULL;
}

int cgroup_open_doors(const struct cgroup *group, int doors[CGROUP_FOLDERS], struct error *err)
{
    int result = 0;
    for (size_t i = 0; i < CGROUP_FOLDERS; i++) {
        const char *folder = group->folders[i];
        cleanup_free char *path = xasprintf("%s/%s", folder ? folder : "",
                                            folder == group->tree ? "cgroup.procs" : "tasks");
        doors[i] = folder ? open(path, O_WRONLY | O_CLOEXEC) : -1;
        if (folder && doors[i] < 0)
            result = error_errno(err, errno, "cannot open %s", path);
    }
    return result;
}

void cgroup_close_doors(const int doors[CGROUP_FOLDERS])
{
    for (size_t i = 0; i < CGROUP_FOLDERS; i++)
        fd_close(doors[i]);
}

/*
 * Version 1 has no way to be born in a group, and to move another process takes 10 ms: all of the
 * kernel waits for it. A process of one thread that moves itself, by a descriptor of somebody who
 * may, takes none (since 5.18).
 */
static void enter_doors(const struct cgroup *group, const int doors[CGROUP_FOLDERS],
                        bool is_in_tree)
{
    for (size_t i = 0; i < CGROUP_FOLDERS; i++) {
        bool is_in = !group->folders[i] || (is_in_tree && group->folders[i] == group->tree);
        if (!is_in && write(doors[i], "0", 1) != 1)
            _exit(1);
    }
}

pid_t cgroup_clone(const struct cgroup *group, const int doors[CGROUP_FOLDERS], uint64_t more,
                   int *pidfd)
{
    cleanup_fd int place = group->tree ? open(group->tree, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    struct clone_args args = {
        .flags = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC |
                 CLONE_NEWUTS | CLONE_PIDFD | (place >= 0 ? CLONE_INTO_CGROUP : 0) | more,
        .pidfd = (uintptr_t)pidfd,
        .exit_signal = SIGCHLD,
        .cgroup = place >= 0 ? (unsigned)place : 0,
    };
    pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof args);
    bool is_in_tree = pid >= 0 || errno != ENOSYS;
    /* Filters of containers hide it, since they cannot look at its flags. */
    if (!is_in_tree && !(args.flags & CSIGNAL))
        pid = (pid_t)syscall(SYS_clone, (args.flags & ~CLONE_INTO_CGROUP) | SIGCHLD, NULL, pidfd,
                             NULL, NULL);
    if (pid == 0)
        enter_doors(group, doors, is_in_tree);
    return pid;
}

/* Not with clone3, which filters of containers refuse. */
pid_t cgroup_fork(const struct cgroup *group, const int doors[CGROUP_FOLDERS], int *pidfd)
{
    pid_t pid = (pid_t)syscall(SYS_clone, CLONE_PIDFD | SIGCHLD, NULL, pidfd, NULL, NULL);
    if (pid == 0)
        enter_doors(group, doors, false);
    return pid;
}

/* On version 2 alone one folder is all of them. */
static const char *folder_of(const struct cgroup *group, enum cgroup_view view)
{
    if (view == CGROUP_TREE || cgroup_is_unified())
        return group->tree;
    return group->folders[view == CGROUP_MEMORY ? 0 : 1];
}

int cgroup_show(const struct cgroup *group, enum cgroup_view view)
{
    const char *folder = folder_of(group, view);
    return folder ? open_tree(AT_FDCWD, folder, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC) : -1;
}

uint64_t cgroup_cpu_us(const struct cgroup *group)
{
    return cgroup_number(group->tree, "cpu.stat", "usage_usec ");
}

uint64_t cgroup_memory_bytes(const struct cgroup *group)
{
    const char *folder = folder_of(group, CGROUP_MEMORY);
    uint64_t bytes = cgroup_number(folder, "memory.current", "");
    return bytes ? bytes : cgroup_number(folder, "memory.usage_in_bytes", "");
}

void cgroup_delegate(const struct cgroup *group, uid_t user)
{
    static const char *const files[] = {"", "/cgroup.procs", "/cgroup.threads"};
    for (size_t i = 0; group->tree && i < sizeof files / sizeof files[0]; i++) {
        cleanup_free char *path = xasprintf("%s%s", group->tree, files[i]);
        if (chown(path, user, user) < 0)
            log_warn("cannot give away %s: %s", path, strerror(errno));
    }
}

int cgroup_freeze(const struct cgroup *group, bool frozen, struct error *err)
{
    if (!group->tree) {
        error_set(err, ERROR_MISSING,
                  "it cannot be paused: there is no control group of version 2 for it");
        return error_hint(err, geteuid() ? "have one delegated: systemd-run --user --scope "
                                           "-p Delegate=yes msb …"
                                         : "mount cgroup2 at " CGROUP_ROOT "/unified");
    }
    if (!put(group->tree, "cgroup.freeze", frozen ? "1" : "0"))
        return error_errno(err, errno, "cannot write %s/cgroup.freeze", group->tree);
    return 0;
}

bool cgroup_holds(const struct cgroup *group, const struct cgroup_limits *limits)
{
    const char *memory = folder_of(group, CGROUP_MEMORY);
    uint64_t bytes = cgroup_number(memory, "memory.max", "");
    if (!bytes)
        bytes = cgroup_number(memory, "memory.limit_in_bytes", "");
    return bytes && bytes <= limits->memory_bytes &&
           cgroup_number(folder_of(group, CGROUP_PROCESSES), "pids.max", "") == limits->processes;
}

bool cgroup_add(const struct cgroup *group, pid_t process)
{
    bool good = true;
    char number[16];
    snprintf(number, sizeof number, "%d", (int)process);
    for (size_t i = 0; i < CGROUP_FOLDERS; i++)
        good &= !group->folders[i] || put(group->folders[i], "cgroup.procs", number);
    return good;
}

bool cgroup_kill(const struct cgroup *group)
{
    return group->tree && put(group->tree, "cgroup.kill", "1");
}

/* Newer kernels let go of a process a moment after its parent has heard of its end, and version 1
 * tells nobody when. */
static void remove_soon(const char *path)
{
    const struct timespec moment = {.tv_nsec = LETTING_GO_NS};
    for (int i = 0; i < LETTING_GO_TIMES; i++) {
        if (folder_remove_empty(AT_FDCWD, path) == 0 || errno != EBUSY)
            return;
        nanosleep(&moment, NULL);
    }
}

void cgroup_remove(struct cgroup *group)
{
    for (size_t i = 0; i < CGROUP_FOLDERS; i++) {
        if (group->folders[i])
            remove_soon(group->folders[i]);
        free(group->folders[i]);
    }
    *group = (struct cgroup){0};
}
