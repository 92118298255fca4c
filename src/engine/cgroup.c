/*
 * Groups are named after the process that made them: ROOT/msb/PID. That needs no registry, is
 * unique while it matters, and tells a sweep whether anybody still wants the group.
 */
#include "engine/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"

#define CGROUP2_MAGIC 0x63677270
#define ROOT "/sys/fs/cgroup"
#define CPU_PERIOD_US 100000

/* Version 2 alone, or the version 1 hierarchies whose controllers we use. */
static const char *const unified[] = {ROOT, NULL};
static const char *const separate[] = {ROOT "/memory", ROOT "/pids", ROOT "/cpu", NULL};
_Static_assert(sizeof separate / sizeof *separate == CGROUP_FOLDERS + 1, "one folder for each");

static bool is_unified(void)
{
    struct statfs status;
    return statfs(ROOT, &status) == 0 && status.f_type == CGROUP2_MAGIC;
}

static const char *const *hierarchies(void)
{
    return is_unified() ? unified : separate;
}

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

static char *make_group(const char *hierarchy)
{
    cleanup_free char *parent = xasprintf("%s/msb", hierarchy);
    mkdir(parent, 0755);
    if (is_unified()) {
        put(hierarchy, "cgroup.subtree_control", "+memory +pids");
        put(hierarchy, "cgroup.subtree_control", "+cpu");
        put(parent, "cgroup.subtree_control", "+memory +pids");
        put(parent, "cgroup.subtree_control", "+cpu");
    }
    cleanup_free char *folder = xasprintf("%s/%d", parent, (int)getpid());
    if (mkdir(folder, 0755) < 0 && errno != EEXIST)
        return NULL;
    return steal_pointer(&folder);
}

void cgroup_create(struct cgroup *group, const struct cgroup_limits *limits)
{
    *group = (struct cgroup){0};
    const char *const *hierarchy = hierarchies();
    for (size_t i = 0; hierarchy[i]; i++) {
        group->folders[i] = make_group(hierarchy[i]);
        if (group->folders[i])
            set_limits(group->folders[i], limits);
    }
}

int cgroup_birthplace(const struct cgroup *group)
{
    if (!is_unified() || !group->folders[0])
        return -1;
    return open(group->folders[0], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

void cgroup_add(const struct cgroup *group, pid_t process)
{
    for (size_t i = 0; i < CGROUP_FOLDERS; i++) {
        if (group->folders[i])
            put_number(group->folders[i], "cgroup.procs", (uint64_t)process);
    }
}

void cgroup_remove(struct cgroup *group)
{
    for (size_t i = 0; i < CGROUP_FOLDERS; i++) {
        if (group->folders[i])
            rmdir(group->folders[i]);
        free(group->folders[i]);
        group->folders[i] = NULL;
    }
}

static void sweep_folder(const char *parent)
{
    DIR *folder = opendir(parent);
    const struct dirent *entry;
    while (folder && (entry = readdir(folder))) {
        char *end;
        long maker = strtol(entry->d_name, &end, 10);
        if (*end || maker <= 0 || kill((pid_t)maker, 0) == 0 || errno != ESRCH)
            continue;
        unlinkat(dirfd(folder), entry->d_name, AT_REMOVEDIR);
    }
    if (folder)
        closedir(folder);
}

void cgroup_sweep(void)
{
    const char *const *hierarchy = hierarchies();
    for (size_t i = 0; hierarchy[i]; i++) {
        cleanup_free char *parent = xasprintf("%s/msb", hierarchy[i]);
        sweep_folder(parent);
    }
}

static bool has_memory_controller(void)
{
    struct error ignored;
    cleanup_buf struct buf controllers = {0};
    return file_read(ROOT "/cgroup.controllers", 4096, &controllers, &ignored) == 0 &&
           strstr(buf_text(&controllers), "memory");
}

bool cgroup_available(const char **why)
{
    const char *const *hierarchy = hierarchies();
    for (size_t i = 0; hierarchy[i]; i++) {
        cleanup_free char *parent = xasprintf("%s/msb", hierarchy[i]);
        if (access(parent, W_OK) < 0 && access(hierarchy[i], W_OK) < 0) {
            *why = file_exists(hierarchy[i]) ? "this user may make no control groups"
                                             : "no control groups are mounted";
            return false;
        }
    }
    if (is_unified() && !has_memory_controller()) {
        *why = "version 2 has no memory controller here";
        return false;
    }
    *why = is_unified() ? "version 2" : "version 1";
    return true;
}
