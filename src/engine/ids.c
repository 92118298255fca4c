#include "engine/ids.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"

int ids_write_map(pid_t process, const char *file, const char *text, struct error *err)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)process, file);
    cleanup_fd int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || file_write_all(fd, text, strlen(text)) < 0)
        return error_errno(err, errno, "cannot write %s", path);
    return 0;
}

static bool has_capabilities(uint32_t wanted)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {0};
    return syscall(SYS_capget, &header, data) == 0 && (data[0].effective & wanted) == wanted;
}

static bool is_mapped(const char *file, uid_t id)
{
    struct error ignored;
    cleanup_buf struct buf text = {0};
    if (file_read(file, 65536, &text, &ignored) < 0)
        return false;
    char *rest = (buf_text(&text), (char *)buf_data(&text));
    for (char *line; (line = strsep(&rest, "\n"));) {
        unsigned inside, outside, count;
        if (sscanf(line, "%u %u %u", &inside, &outside, &count) == 3 && id >= inside &&
            id - inside < count)
            return true;
    }
    return false;
}

const char *ids_lacking(uid_t id)
{
    if (geteuid() != 0)
        return "it is not root";
    if (!has_capabilities(1u << CAP_SETUID | 1u << CAP_SETGID | 1u << CAP_SYS_ADMIN))
        return "it has no CAP_SYS_ADMIN, or no CAP_SETUID and CAP_SETGID";
    if (!is_mapped("/proc/self/uid_map", id) || !is_mapped("/proc/self/gid_map", id))
        return "the ids of the host do not exist in its user namespace";
    return NULL;
}

int ids_space(ids_mapper *map, const void *with, struct error *err)
{
    pid_t holder = (pid_t)syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, NULL);
    if (holder < 0)
        return error_errno(err, errno, "cannot make a user namespace");
    if (holder == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            pause();
    }
    cleanup_free char *space_path = xasprintf("/proc/%d/ns/user", (int)holder);
    int result = map(with, holder, err);
    if (result == 0 && (result = open(space_path, O_RDONLY | O_CLOEXEC)) < 0)
        error_errno(err, errno, "cannot open %s", space_path);
    kill(holder, SIGKILL);
    waitpid(holder, NULL, 0);
    return result;
}

struct translation {
    uid_t from_user;
    gid_t from_group;
    uid_t to;
};

static int map_translation(const void *with, pid_t process, struct error *err)
{
    const struct translation *one = with;
    cleanup_free char *users = xasprintf("%u %u 1\n", one->from_user, one->to);
    cleanup_free char *groups = xasprintf("%u %u 1\n", one->from_group, one->to);
    int result = ids_write_map(process, "uid_map", users, err);
    return result < 0 ? result : ids_write_map(process, "gid_map", groups, err);
}

int ids_translation(uid_t from_user, gid_t from_group, uid_t to, struct error *err)
{
    const struct translation one = {from_user, from_group, to};
    int result = ids_space(map_translation, &one, err);
    return result >= 0 ? result : error_wrap(err, "cannot translate file owners");
}
