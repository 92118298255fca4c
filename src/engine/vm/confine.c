#include "engine/vm/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fdpass.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/wait.h"
#include "engine/ids.h"
#include "engine/mounts.h"
#include "engine/vm/confine_calls.h"
#include "engine/vm/confine_root.h"

#define START_TIMEOUT_MS 10000
/* Host ids that no account has; one for each keeper, by its process id. */
#define FIRST_HOST_USER 1900000000u

struct child {
    const struct confinement *confinement;
    int *volume_trees;
    bool as_root;
    int parent; /* our end of the conversation with the caller */
    int caller; /* the other end, which is not ours */
};

/* ---- inside the new process ------------------------------------------------------------- */

/* The descriptors take their agreed numbers, the caller's socket moves above them, and everything
 * else closes. */
static int arrange_descriptors(struct child *child, int null, struct error *err)
{
    const struct confinement *c = child->confinement;
    int above = CONFINE_FIRST_FD + (int)c->fd_count;
    int moved[32];
    if (c->fd_count > sizeof moved / sizeof moved[0])
        return error_set(err, ERROR_INVALID, "too many descriptors");
    child->parent = fcntl(child->parent, F_DUPFD_CLOEXEC, 512);
    for (size_t i = 0; i < c->fd_count; i++)
        moved[i] = fcntl(c->fds[i], F_DUPFD_CLOEXEC, 512);
    if (dup2(c->stderr_fd, 2) < 0 || dup2(null, 0) < 0 || dup2(2, 1) < 0)
        return error_errno(err, errno, "cannot arrange descriptors");
    for (size_t i = 0; i < c->fd_count; i++) {
        if (dup2(moved[i], CONFINE_FIRST_FD + (int)i) < 0)
            return error_errno(err, errno, "cannot arrange descriptors");
    }
    child->parent = dup3(child->parent, above, O_CLOEXEC);
    close_range((unsigned)above + 1, ~0U, 0);
    return 0;
}

static int set_own_limits(struct error *err)
{
    struct rlimit none = {0, 0};
    if (setrlimit(RLIMIT_CORE, &none) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
        return error_errno(err, errno, "cannot limit the process");
    return 0;
}

static _Noreturn void child_main(struct child *child)
{
    struct error err;
    char go;
    setsid();
    for (int number = 1; number < NSIG; number++)
        signal(number, SIG_DFL);
    /* Answered only after our ids are mapped; nothing comes when the caller is dead. */
    close(child->caller);
    if (recv(child->parent, &go, 1, 0) != 1)
        _exit(1);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int result = confine_enter_root(child->confinement, child->volume_trees, child->as_root, &err);
    if (result == 0)
        result = arrange_descriptors(child, null, &err);
    if (result == 0)
        result = set_own_limits(&err);
    int listener = result == 0 ? confine_calls(&err) : result;
    if (listener >= 0) {
        /* From now on we end with the caller, if that is still there. */
        if (fdpass_send(child->parent, "", 1, listener) < 0)
            _exit(1);
        char *environment[] = {"LD_PRELOAD=" CONFINE_CAPSTONE ":" CONFINE_PMEM ":" CONFINE_SASL,
                               "LD_LIBRARY_PATH=" CONFINE_LINKS, NULL};
        const struct confinement *c = child->confinement;
        execve(c->is_frozen ? CONFINE_THAW : c->argv[0], c->argv, environment);
        error_errno(&err, errno, "cannot execute %s", c->argv[0]);
    }
    fdpass_send(child->parent, &err, sizeof err, -1);
    _exit(1);
}

/* ---- outside ----------------------------------------------------------------------------- */

static int map_ids(pid_t process, uid_t user, gid_t group, bool as_root, struct error *err)
{
    char users[64], groups[64];
    snprintf(users, sizeof users, "%d %u 1\n", CONFINE_USER, user);
    snprintf(groups, sizeof groups, "%d %u 1\n", CONFINE_USER, group);
    int result = as_root ? 0 : ids_write_map(process, "setgroups", "deny", err);
    if (result == 0)
        result = ids_write_map(process, "uid_map", users, err);
    if (result == 0)
        result = ids_write_map(process, "gid_map", groups, err);
    return result;
}

/* What the child says before it executes QEMU: the listener, or why it cannot. */
static int receive_listener(int socket, struct error *err)
{
    struct error said = {0};
    int listener;
    ssize_t got = fdpass_receive(socket, &said, sizeof said, &listener);
    if (listener >= 0)
        return listener;
    if (got == sizeof said) {
        *err = said;
        return -1;
    }
    return error_set(err, ERROR_IO, "the process for QEMU ended early");
}

static bool read_name(pid_t process, uint64_t address, char *name, size_t size)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/mem", (int)process);
    cleanup_fd int memory = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = memory >= 0 ? pread(memory, name, size - 1, (off_t)address) : -1;
    if (got <= 0)
        return false;
    name[got] = '\0';
    return true;
}

/*
 * Answers one caught open: with our descriptor when the name is on the list, with ENOENT
 * otherwise. A name changed by another thread in between gains nothing: the list is all there is.
 */
static int answer_open(int listener, pid_t process, const struct confinement *c, bool *given,
                       struct error *err)
{
    struct seccomp_notif request = {0};
    if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &request) < 0)
        return errno == EINTR || errno == ENOENT
                   ? 0
                   : error_errno(err, errno, "cannot receive a caught system call");
    char name[256] = "";
    struct seccomp_notif_resp response = {.id = request.id, .error = -ENOENT};
    if (read_name(process, request.data.args[1], name, sizeof name)) {
        for (size_t i = 0; i < c->open_count; i++) {
            if (given[i] || strcmp(name, c->opens[i].path) != 0)
                continue;
            struct seccomp_notif_addfd added = {
                .id = request.id, .srcfd = (unsigned)c->opens[i].fd, .newfd_flags = O_CLOEXEC};
            int number = ioctl(listener, SECCOMP_IOCTL_NOTIF_ADDFD, &added);
            if (number >= 0) {
                given[i] = true;
                response.error = 0;
                response.val = number;
            }
            break;
        }
    }
    if (ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &response) < 0 && errno != ENOENT)
        return error_errno(err, errno, "cannot answer a caught system call");
    return 0;
}

static bool all_given(const bool *given, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!given[i])
            return false;
    }
    return true;
}

static int answer_opens(int listener, pid_t process, int pidfd, const struct confinement *c,
                        uint64_t deadline, struct error *err)
{
    bool given[8] = {false};
    while (!all_given(given, c->open_count)) {
        int ready = wait_readable((int[]){listener, pidfd}, 2, deadline, "QEMU", err);
        if (ready < 0)
            return ready;
        if (ready == 1)
            return error_set(err, ERROR_UNAVAILABLE, "QEMU ended while starting");
        int result = answer_open(listener, process, c, given, err);
        if (result < 0)
            return result;
    }
    return 0;
}

static int see_through(int socket, pid_t process, int pidfd, const struct confinement *c,
                       struct error *err)
{
    uint64_t deadline = clock_monotonic_ms() + START_TIMEOUT_MS;
    int ready = wait_readable((int[]){socket, pidfd}, 2, deadline, "QEMU", err);
    if (ready < 0)
        return ready;
    cleanup_fd int listener = receive_listener(socket, err);
    if (listener < 0)
        return listener;
    return answer_opens(listener, process, pidfd, c, deadline, err);
}

/* An ordinary user's folders need no preparation: QEMU runs with that user's id. */
static int prepare_volumes(const struct confinement *c, uid_t user, int *trees, struct error *err)
{
    for (size_t i = 0; i < c->volume_count; i++) {
        trees[i] = mount_volume(&c->volumes[i], user, err);
        if (trees[i] < 0)
            return -1;
    }
    return 0;
}

static int spawn(struct child *child, pid_t *process, int *pidfd, struct error *err)
{
    int doors[CGROUP_FOLDERS];
    const struct cgroup *group = child->confinement->cgroup;
    int result = cgroup_open_doors(group, doors, err);
    *process = result < 0 ? -1 : cgroup_clone(group, doors, 0, pidfd);
    if (*process == 0)
        child_main(child);
    int reason = errno;
    cgroup_close_doors(doors);
    if (*process > 0 || result < 0)
        return result;
    error_errno(err, reason, "cannot make namespaces for QEMU");
    return error_hint(err, "user namespaces must be allowed: sysctl kernel.unprivileged_userns_"
                           "clone=1, user.max_user_namespaces=10000");
}

int confine_start(const struct confinement *confinement, pid_t *process, int *pidfd,
                  struct error *err)
{
    bool as_root = geteuid() == 0;
    uid_t user = as_root ? FIRST_HOST_USER + (uid_t)getpid() : geteuid();
    gid_t group = as_root ? user : getegid();
    int sockets[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0)
        return error_errno(err, errno, "cannot make a socket pair");
    cleanup_fd int ours = sockets[0];
    int volume_trees[64];
    memset(volume_trees, -1, sizeof volume_trees);

    struct child child = {.confinement = confinement,
                          .volume_trees = volume_trees,
                          .as_root = as_root,
                          .parent = sockets[1],
                          .caller = sockets[0]};
    *process = -1;
    *pidfd = -1;
    int result = confinement->volume_count > sizeof volume_trees / sizeof volume_trees[0]
                     ? error_set(err, ERROR_LIMIT, "at most 64 folders can be shared")
                 : as_root ? prepare_volumes(confinement, user, volume_trees, err)
                           : 0;
    if (result == 0)
        result = spawn(&child, process, pidfd, err);
    fd_close(sockets[1]);
    if (result == 0)
        result = map_ids(*process, user, group, as_root, err);
    if (result == 0) {
        fdpass_send(ours, "", 1, -1);
        result = see_through(ours, *process, *pidfd, confinement, err);
    }
    for (size_t i = 0; i < confinement->volume_count; i++)
        fd_close(volume_trees[i]);
    if (result < 0 && *process > 0) {
        kill(*process, SIGKILL);
        waitpid(*process, NULL, 0);
        fd_close(steal_fd(pidfd));
    }
    return result;
}
