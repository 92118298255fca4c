#include "engine/ids.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
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

int ids_namespace(const char *users, const char *groups, struct error *err)
{
    pid_t holder = (pid_t)syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, NULL);
    if (holder < 0)
        return error_errno(err, errno, "cannot make a user namespace");
    if (holder == 0) {
        for (;;)
            pause();
    }
    cleanup_free char *space_path = xasprintf("/proc/%d/ns/user", (int)holder);
    int result = ids_write_map(holder, "uid_map", users, err);
    if (result == 0)
        result = ids_write_map(holder, "gid_map", groups, err);
    if (result == 0 && (result = open(space_path, O_RDONLY | O_CLOEXEC)) < 0)
        error_errno(err, errno, "cannot open %s", space_path);
    kill(holder, SIGKILL);
    waitpid(holder, NULL, 0);
    return result >= 0 ? result : error_wrap(err, "cannot translate file owners");
}

int ids_translation(uid_t from_user, gid_t from_group, uid_t to, struct error *err)
{
    cleanup_free char *users = xasprintf("%u %u 1\n", from_user, to);
    cleanup_free char *groups = xasprintf("%u %u 1\n", from_group, to);
    return ids_namespace(users, groups, err);
}
