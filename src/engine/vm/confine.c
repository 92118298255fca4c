#include "engine/vm/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
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
#include "base/log.h"
#include "base/mem.h"
#include "base/wait.h"
#include "engine/ids.h"
#include "engine/landlock.h"
#include "engine/mounts.h"
#include "engine/vm/confine_calls.h"
#include "engine/vm/confine_root.h"
#include "engine/vm/confine_thin.h"

#define START_TIMEOUT_MS 10000
/* Above all numbers that descriptors take inside. */
#define ASIDE 512
/* Host ids that no account has; one for each keeper, by its process id. */
#define FIRST_HOST_USER 1900000000u

struct child {
    const struct confinement *confinement;
    const struct thin *thin; /* NULL: behind namespaces */
    bool is_trial;           /* it only builds the wall */
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
    int moved[32];
    size_t count = 0;
    if (c->fd_count + THIN_LIBRARIES > sizeof moved / sizeof moved[0])
        return error_set(err, ERROR_INVALID, "too many descriptors");
    child->parent = fcntl(child->parent, F_DUPFD_CLOEXEC, ASIDE);
    for (size_t i = 0; i < c->fd_count; i++)
        moved[count++] = fcntl(c->fds[i], F_DUPFD_CLOEXEC, ASIDE);
    for (size_t i = 0; child->thin && i < THIN_LIBRARIES && child->thin->libraries[i] >= 0; i++)
        moved[count++] = fcntl(child->thin->libraries[i], F_DUPFD_CLOEXEC, ASIDE);
    int above = CONFINE_FIRST_FD + (int)count;
    if (dup2(c->stderr_fd, 2) < 0 || dup2(null, 0) < 0 || dup2(2, 1) < 0)
        return error_errno(err, errno, "cannot arrange descriptors");
    for (size_t i = 0; i < count; i++) {
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

/* Everything up to the filter, which comes last. */
static int build_wall(struct child *child, int null, struct error *err)
{
    int result = child->thin ? set_own_limits(err) : 0;
    if (result == 0)
        result = child->thin ? thin_enter(child->confinement, err)
                             : confine_enter_root(child->confinement, child->volume_trees,
                                                  child->as_root, err);
    if (result < 0 || child->is_trial)
        return result;
    result = arrange_descriptors(child, null, err);
    /* A change of the user takes the signal for the keeper's death away again. */
    return result < 0 || child->thin ? result : set_own_limits(err);
}

static int install_filter(const struct child *child, struct error *err)
{
    const struct confinement *c = child->confinement;
    const struct confine_calls thin = {.changes_files =
                                           c->volume_count > 0 && !c->volumes[0].read_only};
    const struct confine_calls full = {.is_alone = true, .changes_files = true};
    return confine_calls(child->thin ? &thin : &full, err);
}

static void execute(const struct child *child)
{
    const struct confinement *c = child->confinement;
    char preload[128] = "LD_PRELOAD=" CONFINE_CAPSTONE ":" CONFINE_PMEM ":" CONFINE_SASL;
    char *environment[] = {preload, "LD_LIBRARY_PATH=" CONFINE_LINKS, NULL};
    if (child->thin) {
        int first = CONFINE_FIRST_FD + (int)c->fd_count;
        bool all = child->thin->libraries[0] >= 0 && child->thin->libraries[1] >= 0;
        snprintf(preload, sizeof preload, "LD_PRELOAD=/proc/self/fd/%d:/proc/self/fd/%d", first,
                 first + 1);
        environment[0] = all ? preload : NULL;
        environment[1] = NULL;
    }
    execve(c->is_frozen  ? CONFINE_THAW
           : child->thin ? child->thin->argv[0]
                         : c->argv[0],
           child->thin ? child->thin->argv : c->argv, environment);
}

static _Noreturn void child_main(struct child *child)
{
    struct error err = {0};
    char go;
    setsid();
    for (int number = 1; number < NSIG; number++)
        signal(number, SIG_DFL);
    /* Answered only after our ids are mapped; nothing comes when the caller is dead. */
    close(child->caller);
    if (recv(child->parent, &go, 1, 0) != 1)
        _exit(1);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int result = build_wall(child, null, &err);
    int listener = result < 0 || child->is_trial ? -1 : install_filter(child, &err);
    if (listener >= 0) {
        /* From now on we end with the caller, if that is still there. */
        if (fdpass_send(child->parent, "", 1, listener) < 0)
            _exit(1);
        execute(child);
        error_errno(&err, errno, "cannot execute %s", child->confinement->argv[0]);
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

/* A limit of none is a refusal; one that is reached is not. */
static bool are_namespaces_refused(int reason)
{
    struct error ignored;
    cleanup_buf struct buf limit = {0};
    if (reason != ENOSPC ||
        file_read("/proc/sys/user/max_user_namespaces", 64, &limit, &ignored) < 0)
        return reason == EPERM;
    return strtol(buf_text(&limit), NULL, 10) == 0;
}

static int spawn(struct child *child, pid_t *process, int *pidfd, struct error *err)
{
    int doors[CGROUP_FOLDERS];
    const struct cgroup *group = child->confinement->cgroup;
    int result = cgroup_open_doors(group, doors, err);
    *process = result < 0    ? -1
               : child->thin ? cgroup_fork(group, doors, pidfd)
                             : cgroup_clone(group, doors, 0, pidfd);
    if (*process == 0)
        child_main(child);
    int reason = errno;
    cgroup_close_doors(doors);
    if (*process > 0 || result < 0)
        return result;
    if (child->thin)
        return error_errno(err, reason, "cannot make a process for QEMU");
    error_errno(err, are_namespaces_refused(reason) ? EPERM : reason,
                "cannot make namespaces for QEMU");
    return error_hint(err, "user namespaces must be allowed: sysctl kernel.unprivileged_userns_"
                           "clone=1, user.max_user_namespaces=10000; in a container by its "
                           "seccomp profile");
}

/* The child says whether it could build the wall. */
static int hear_of_trial(int socket, struct error *err)
{
    struct error said = {0};
    int nothing;
    if (fdpass_receive(socket, &said, sizeof said, &nothing) != sizeof said)
        return error_set(err, ERROR_IO, "the process for QEMU ended early");
    if (said.code == ERROR_NONE)
        return 0;
    *err = said;
    return -1;
}

/* `is_refused`: this place does not allow such a wall; another one may be built. */
static int start(const struct child *like, pid_t *process, int *pidfd, bool *is_refused,
                 struct error *err)
{
    struct child child = *like;
    const struct confinement *confinement = child.confinement;
    uid_t user = child.as_root ? FIRST_HOST_USER + (uid_t)getpid() : geteuid();
    gid_t group = child.as_root ? user : getegid();
    int sockets[2];
    *is_refused = false;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0)
        return error_errno(err, errno, "cannot make a socket pair");
    cleanup_fd int ours = sockets[0];
    int volume_trees[64];
    memset(volume_trees, -1, sizeof volume_trees);
    child.volume_trees = volume_trees;
    child.parent = sockets[1];
    child.caller = sockets[0];
    *process = -1;
    *pidfd = -1;
    int result = confinement->volume_count > sizeof volume_trees / sizeof volume_trees[0]
                     ? error_set(err, ERROR_LIMIT, "at most 64 folders can be shared")
                 : child.as_root ? prepare_volumes(confinement, user, volume_trees, err)
                                 : 0;
    bool is_prepared = result == 0;
    if (result == 0)
        result = spawn(&child, process, pidfd, err);
    fd_close(sockets[1]);
    if (result == 0 && !child.thin)
        result = map_ids(*process, user, group, child.as_root, err);
    if (result == 0) {
        fdpass_send(ours, "", 1, -1);
        result = child.is_trial ? hear_of_trial(ours, err)
                                : see_through(ours, *process, *pidfd, confinement, err);
    }
    *is_refused =
        is_prepared && result < 0 && (err->code == ERROR_DENIED || err->code == ERROR_MISSING);
    for (size_t i = 0; i < confinement->volume_count; i++)
        fd_close(volume_trees[i]);
    if ((result < 0 || child.is_trial) && *process > 0) {
        kill(*process, SIGKILL);
        waitpid(*process, NULL, 0);
        fd_close(steal_fd(pidfd));
    }
    return result;
}

/* Who runs msb may rather have no machine than a thinner wall. */
static bool are_namespaces_demanded(void)
{
    const char *wanted = getenv("MSB_WALL");
    return wanted && strcmp(wanted, "namespaces") == 0;
}

/* Root of a host can allow namespaces, and has more to lose: QEMU would keep its id. */
static bool may_be_thin(const struct child *child)
{
    return !child->as_root && !are_namespaces_demanded() && landlock_available();
}

static int start_thin(const struct confinement *confinement, pid_t *process, int *pidfd,
                      struct error *err)
{
    bool ignored;
    struct thin thin;
    struct child child = {.confinement = confinement, .thin = &thin};
    int result = thin_prepare(confinement, &thin, err);
    if (result == 0)
        result = start(&child, process, pidfd, &ignored, err);
    thin_free(&thin);
    return result;
}

/* What can be done about a wall that could not be built. */
static void explain_refusal(struct error *why)
{
    if (are_namespaces_demanded())
        error_add_context(why, "MSB_WALL=namespaces asks for what is refused here");
    if (!landlock_available()) {
        error_add_context(why, "the kernel has no Landlock, and namespaces are refused");
        error_add_hint(why, "use a kernel from 5.13 on with Landlock among its lsm=, or allow user "
                            "namespaces and mounts in the container");
    }
    error_add_hint(why, geteuid() == 0 ? "run the container as another user than root, and allow "
                                         "user namespaces and mounts in its seccomp profile"
                                       : "allow user namespaces and mounts: in a container, by "
                                         "its seccomp profile");
}

enum confine_wall confine_look(const char *program, struct error *why)
{
    pid_t process;
    int pidfd;
    bool is_refused;
    const char *const no_files[] = {NULL};
    const struct cgroup no_group = {0};
    cleanup_free char *copy = xstrdup(program);
    char *argv[] = {copy, NULL};
    const struct confinement trial = {
        .argv = argv, .files = no_files, .folder = "/usr", .cgroup = &no_group};
    struct child child = {.confinement = &trial,
                          .is_trial = true,
                          .as_root = !ids_lacking(FIRST_HOST_USER + (uid_t)getpid())};
    if (start(&child, &process, &pidfd, &is_refused, why) == 0)
        return CONFINE_FULL;
    if (is_refused)
        explain_refusal(why);
    return is_refused && may_be_thin(&child) ? CONFINE_THIN : CONFINE_NONE;
}

/* A file that may not be read is refused too: the place is judged by a wall without any. */
int confine_start(const struct confinement *confinement, pid_t *process, int *pidfd,
                  struct error *err)
{
    bool is_refused;
    struct error why;
    struct child child = {.confinement = confinement,
                          .as_root = !ids_lacking(FIRST_HOST_USER + (uid_t)getpid())};
    int result = start(&child, process, pidfd, &is_refused, err);
    if (result == 0 || !is_refused)
        return result;
    enum confine_wall wall = confine_look(confinement->argv[0], &why);
    if (wall == CONFINE_NONE)
        *err = why;
    if (wall != CONFINE_THIN || confinement->is_frozen)
        return result;
    log_warn("QEMU stands behind a thinner wall than namespaces: %s", why.message);
    if (confinement->is_thin)
        *confinement->is_thin = true;
    return start_thin(confinement, process, pidfd, err);
}
