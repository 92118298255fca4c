#include "engine/jail/place.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fdpass.h"
#include "base/file.h"
#include "base/mem.h"
#include "engine/ids.h"
#include "engine/mounts.h"

/* Of the range that jails take theirs from. */
#define SOME_HOST_USER 2000000000u

#define AS_USER                                                                                    \
    "of a container: podman run --user 1000 --security-opt seccomp=unconfined --security-opt "     \
    "unmask=ALL"

/* As the first process of its namespaces. */
static int try_inside(struct error *err)
{
    cleanup_fd int memory = mount_make("tmpfs", NULL, 0, err);
    if (memory < 0)
        return error_wrap(err, "nothing can be mounted");
    cleanup_fd int processes = mount_make("proc", NULL, 0, err);
    if (processes < 0) {
        error_wrap(err, "parts of /proc are covered");
        return error_hint(err, "leave /proc as it is: podman run --security-opt unmask=ALL");
    }
    if (sethostname("jail", 4) < 0)
        return error_errno(err, errno, "the host name cannot be set");
    return 0;
}

static _Noreturn void try_and_tell(int parent)
{
    struct error err = {0};
    char go;
    if (recv(parent, &go, 1, 0) == 1) {
        try_inside(&err);
        fdpass_send(parent, &err, sizeof err, -1);
    }
    _exit(0);
}

static int map_own_id(pid_t process, struct error *err)
{
    cleanup_free char *user = xasprintf("0 %u 1\n", geteuid());
    cleanup_free char *group = xasprintf("0 %u 1\n", getegid());
    int result = ids_write_map(process, "setgroups", "deny", err);
    if (result == 0)
        result = ids_write_map(process, "uid_map", user, err);
    return result < 0 ? result : ids_write_map(process, "gid_map", group, err);
}

static int try_as_user(struct error *err)
{
    int sockets[2], nothing;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0)
        return error_errno(err, errno, "cannot make a socket pair");
    cleanup_fd int ours = sockets[0];
    pid_t child = (pid_t)syscall(
        SYS_clone, CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWUTS | SIGCHLD, NULL, NULL,
        NULL, NULL);
    int reason = errno;
    if (child == 0) {
        close(sockets[0]);
        try_and_tell(sockets[1]);
    }
    fd_close(sockets[1]);
    if (child < 0)
        return error_errno(err, reason, "no namespaces can be made");
    struct error said = {.code = ERROR_IO};
    int result = map_own_id(child, err);
    if (result == 0) {
        fdpass_send(ours, "", 1, -1);
        if (fdpass_receive(ours, &said, sizeof said, &nothing) != sizeof said)
            result = error_set(err, ERROR_IO, "the process that tried it ended early");
    }
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    if (result == 0 && said.code != ERROR_NONE) {
        *err = said;
        return -1;
    }
    return result;
}

int jail_place_check(struct error *err)
{
    if (geteuid() == 0) {
        const char *lacking = ids_lacking(SOME_HOST_USER);
        if (!lacking)
            return 0;
        error_set(err, ERROR_MISSING, "msb runs as root of a container: %s", lacking);
        return error_hint(err, "use --engine vm, or be the host's root with all rights (podman run "
                               "--privileged as root), or a user " AS_USER);
    }
    int result = try_as_user(err);
    if (result == 0)
        return 0;
    err->code = ERROR_MISSING;
    return error_hint(err, "use --engine vm, or allow namespaces and mounts for the user " AS_USER);
}
