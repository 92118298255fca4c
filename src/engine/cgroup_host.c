#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
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

/* The group of this process, by its path; NULL: it is not known. */
static char *find_own(const char *hierarchy)
{
    struct error ignored;
    cleanup_buf struct buf text = {0};
    if (file_read("/proc/self/cgroup", 65536, &text, &ignored) < 0)
        return NULL;
    char *own = strstr(buf_text(&text), "0::/");
    if (!own)
        return NULL;
    own += strlen("0::");
    own[strcspn(own, "\n")] = '\0';
    return xasprintf("%s%s", hierarchy, own[1] ? own : "");
}

static bool file_has(const char *folder, const char *file, const char *word)
{
    struct error ignored;
    cleanup_buf struct buf text = {0};
    cleanup_free char *path = xasprintf("%s/%s", folder, file);
    return file_read(path, 65536, &text, &ignored) == 0 && strstr(buf_text(&text), word);
}

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text);
    return length >= strlen(end) && strcmp(text + length - strlen(end), end) == 0;
}

static bool is_marked(const char *group)
{
    char mark = 0;
    return (getxattr(group, "user.delegate", &mark, 1) == 1 ||
            getxattr(group, "trusted.delegate", &mark, 1) == 1) &&
           mark == '1';
}

/* What Delegate=yes gives; without it a unit has the controllers that it has settings for. */
static bool has_all_controllers(const char *group)
{
    return file_has(group, "cgroup.controllers", "memory") &&
           file_has(group, "cgroup.controllers", "pids") &&
           file_has(group, "cgroup.controllers", "cpu ");
}

/*
 * The host's systemd marks units with Delegate=yes, that of a user does not. All below the latter
 * is the user's, who loses nothing when a unit is divided that he did not mean for it. Root takes
 * no group of a user.
 */
static bool is_delegated(const char *group)
{
    struct stat status;
    bool is_unit = ends_with(group, ".scope") || ends_with(group, ".service");
    return stat(group, &status) == 0 && status.st_uid == geteuid() &&
           (is_marked(group) || (geteuid() != 0 && is_unit && has_all_controllers(group)));
}

/*
 * A service whose processes lie in its own group, not in one below (DelegateSubgroup= makes one,
 * since systemd 254), could not be started again while sandboxes live on in it: the kernel lets no
 * process into a group that hands down memory, and systemd reports 219/CGROUP.
 */
static bool must_stay_undivided(const char *group, const char *own)
{
    return strcmp(group, own) == 0 && ends_with(group, ".service");
}

/* The nearest group above this process that systemd has handed over to its user; NULL: none. */
static char *find_unit(const char *hierarchy, const char *own)
{
    cleanup_free char *group = xstrdup(own);
    while (strlen(group) > strlen(hierarchy)) {
        if (is_delegated(group) && !must_stay_undivided(group, own))
            return steal_pointer(&group);
        *strrchr(group, '/') = '\0';
    }
    return NULL;
}

/* The topmost group above this process that its user may change, whoever gave it to him; NULL:
 * none. */
static char *find_topmost(const char *hierarchy, const char *own)
{
    for (size_t length = strlen(hierarchy);; length += 1 + strcspn(own + length + 1, "/")) {
        cleanup_free char *group = xasprintf("%.*s", (int)length, own);
        if (may_write(group, "") && may_write(group, "cgroup.procs"))
            return steal_pointer(&group);
        if (!own[length])
            return NULL;
    }
}

char *cgroup_find_root(const char *hierarchy)
{
    cleanup_free char *own = cgroup_is_version_2(hierarchy) ? find_own(hierarchy) : NULL;
    char *unit = own ? find_unit(hierarchy, own) : NULL;
    if (unit)
        return unit;
    if (geteuid() == 0)
        return xstrdup(hierarchy);
    return own ? find_topmost(hierarchy, own) : NULL;
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

static const char *missing_in_version_2(const char *root)
{
    if (!file_has(root, "cgroup.controllers", "memory") ||
        !file_has(root, "cgroup.controllers", "pids"))
        return "version 2 has no controllers memory and pids here";
    if (!may_write(root, "cgroup.subtree_control"))
        return "the group that is yours may not be divided";
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
