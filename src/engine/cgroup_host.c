#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "engine/cgroup_internal.h"

#define CGROUP2_MAGIC 0x63677270

/* Version 2 alone, or the version 1 hierarchies whose controllers we use and version 2 beside
 * them. */
static const char *const unified[] = {CGROUP_ROOT, NULL};
static const char *const separate[] = {CGROUP_ROOT "/memory", CGROUP_ROOT "/pids",
                                       CGROUP_ROOT "/cpu", CGROUP_ROOT "/unified", NULL};
#define BESIDE 3 /* limits nothing, so it need not be there */
_Static_assert(sizeof separate / sizeof *separate == CGROUP_FOLDERS + 1, "one folder for each");

bool cgroup_is_version_2(const char *hierarchy)
{
    struct statfs status;
    return statfs(hierarchy, &status) == 0 && status.f_type == CGROUP2_MAGIC;
}

bool cgroup_is_unified(void)
{
    return cgroup_is_version_2(CGROUP_ROOT);
}

const char *const *cgroup_hierarchies(void)
{
    return cgroup_is_unified() ? unified : separate;
}

static bool may_write(const char *folder, const char *file)
{
    cleanup_free char *path = xasprintf("%s/%s", folder, file);
    return access(path, W_OK) == 0;
}

/* The topmost group above this process that its user may change, by its path; NULL: none. */
static char *find_delegated(const char *hierarchy)
{
    struct error ignored;
    cleanup_buf struct buf text = {0};
    if (!cgroup_is_version_2(hierarchy) ||
        file_read("/proc/self/cgroup", 65536, &text, &ignored) < 0)
        return NULL;
    char *own = strstr(buf_text(&text), "0::/");
    if (!own)
        return NULL;
    own += strlen("0::/");
    own[strcspn(own, "\n")] = '\0';
    cleanup_free char *group = xstrdup(hierarchy);
    while (!may_write(group, "") || !may_write(group, "cgroup.procs")) {
        const char *name = strsep(&own, "/");
        if (!name)
            return NULL;
        char *below = xasprintf("%s/%s", group, name);
        free(group);
        group = below;
    }
    return steal_pointer(&group);
}

char *cgroup_find_root(const char *hierarchy)
{
    return geteuid() == 0 ? xstrdup(hierarchy) : find_delegated(hierarchy);
}

uint64_t cgroup_number(const char *folder, const char *file, const char *word)
{
    cleanup_buf struct buf text = {0};
    struct error ignored;
    cleanup_free char *path = xasprintf("%s/%s", folder ? folder : "", file);
    if (!folder || file_read(path, 65536, &text, &ignored) < 0)
        return 0;
    const char *at = strstr(buf_text(&text), word);
    return at ? strtoull(at + strlen(word), NULL, 10) : 0;
}

/* In version 1 "no limit" is a number that no host has. */
bool cgroup_room(uint64_t *limit, uint64_t *left)
{
    static const char *const names[][4] = {
        {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_active_file ",
         "total_inactive_file "},
        {"memory.max", "memory.current", "\nactive_file ", "\ninactive_file "}};
    const char *const *name = names[cgroup_is_unified()];
    cleanup_free char *root = cgroup_find_root(cgroup_hierarchies()[0]);
    uint64_t used = cgroup_number(root, name[1], "");
    uint64_t cached =
        cgroup_number(root, "memory.stat", name[2]) + cgroup_number(root, "memory.stat", name[3]);
    uint64_t held = used > cached ? used - cached : 0;
    *limit = cgroup_number(root, name[0], "");
    *left = *limit > held ? *limit - held : 0;
    return *limit > 0 && *limit < INT64_MAX / 2;
}

/* One that is dead may have a number until its parent takes notice. */
static bool is_alive(pid_t process)
{
    cleanup_fd int pidfd = (int)syscall(SYS_pidfd_open, process, 0);
    struct pollfd ended = {.fd = pidfd, .events = POLLIN};
    return pidfd >= 0 ? poll(&ended, 1, 0) == 0 : errno != ESRCH;
}

static void sweep_folder(const char *parent)
{
    DIR *folder = opendir(parent);
    const struct dirent *entry;
    while (folder && (entry = readdir(folder))) {
        char *end;
        long maker = strtol(entry->d_name, &end, 10);
        if (*end || maker <= 0 || is_alive((pid_t)maker))
            continue;
        folder_remove_empty(dirfd(folder), entry->d_name);
    }
    if (folder)
        closedir(folder);
}

void cgroup_sweep(void)
{
    const char *const *hierarchy = cgroup_hierarchies();
    for (size_t i = 0; hierarchy[i]; i++) {
        cleanup_free char *root = cgroup_find_root(hierarchy[i]);
        cleanup_free char *parent = xasprintf("%s/msb", root ? root : hierarchy[i]);
        sweep_folder(parent);
    }
}

static bool file_has(const char *folder, const char *file, const char *word)
{
    struct error ignored;
    cleanup_buf struct buf text = {0};
    cleanup_free char *path = xasprintf("%s/%s", folder, file);
    return file_read(path, 65536, &text, &ignored) == 0 && strstr(buf_text(&text), word);
}

/* Controllers can be handed down from a group that does so already, or has no processes itself, or
 * is the topmost of all. */
static const char *missing_in_version_2(const char *root)
{
    if (!file_has(root, "cgroup.controllers", "memory") ||
        !file_has(root, "cgroup.controllers", "pids"))
        return "version 2 has no controllers memory and pids here";
    if (strcmp(root, CGROUP_ROOT) != 0 && !file_has(root, "cgroup.subtree_control", "memory") &&
        file_has(root, "cgroup.procs", "\n"))
        return "the group that is yours has processes itself";
    return NULL;
}

static const char *missing_in(const char *hierarchy)
{
    cleanup_free char *root = cgroup_find_root(hierarchy);
    if (!file_exists(hierarchy))
        return "no control groups are mounted";
    if (root && access(root, W_OK) < 0 && errno == EROFS)
        return "control groups are read-only, as in a container, whose own limits hold for all "
               "sandboxes together";
    if (!root || access(root, W_OK) < 0)
        return "this user may make no control groups";
    return cgroup_is_unified() ? missing_in_version_2(root) : NULL;
}

bool cgroup_available(const char **why)
{
    const char *const *hierarchy = cgroup_hierarchies();
    for (size_t i = 0; hierarchy[i]; i++) {
        const char *missing = i == BESIDE ? NULL : missing_in(hierarchy[i]);
        if (missing) {
            *why = missing;
            return false;
        }
    }
    *why = cgroup_is_unified() ? "version 2" : "version 1";
    return true;
}
