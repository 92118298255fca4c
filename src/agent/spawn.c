#include "agent/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/machine.h"
#include "agent/privileges.h"
#include "base/mem.h"
#include "base/signals.h"

/* From <linux/sched.h>, which musl does not bring. */
#define CLONE_INTO_CGROUP_FLAG 0x200000000ULL
struct clone_arguments {
    uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid,
        set_tid_size, cgroup;
};

#define HIGH_FD 20
#define SCORE "/proc/self/oom_score_adj"

enum stage { STAGE_SETUP, STAGE_USER, STAGE_CWD, STAGE_PROGRAM, STAGE_INTERPRETER };

struct report {
    int stage;
    int reason;
};

static struct rlimit born_limit; /* of descriptors */
static struct rlimit file_limit;
static char born_score[8]; /* the kernel's inclination to kill us when memory runs out */

/* The first process of a machine is spared anyway. */
static void spare_agent(void)
{
    cleanup_fd int fd = machine_is_ours() ? -1 : open(SCORE, O_RDWR | O_CLOEXEC);
    if (fd < 0 || read(fd, born_score, sizeof born_score - 1) <= 0 ||
        pwrite(fd, "-1000", 5, 0) != 5)
        born_score[0] = '\0';
}

static void restore_score(void)
{
    cleanup_fd int fd = born_score[0] ? open(SCORE, O_WRONLY | O_CLOEXEC) : -1;
    if (fd >= 0 && write(fd, born_score, strlen(born_score)) < 0)
        perror(SCORE);
}

void spawn_init(void)
{
    getrlimit(RLIMIT_NOFILE, &born_limit);
    file_limit = born_limit;
    struct rlimit raised = {.rlim_cur = born_limit.rlim_max, .rlim_max = born_limit.rlim_max};
    setrlimit(RLIMIT_NOFILE, &raised);
    spare_agent();
}

void spawn_limit_files_of(pid_t pid)
{
    prlimit(pid, RLIMIT_NOFILE, &file_limit, NULL);
}

void spawn_limit_files(uint64_t count)
{
    struct rlimit wanted = {.rlim_cur = count, .rlim_max = count};
    if (count == 0)
        wanted = born_limit;
    if (wanted.rlim_cur == file_limit.rlim_cur && wanted.rlim_max == file_limit.rlim_max)
        return;
    file_limit = wanted;
    scope_each_process(spawn_limit_files_of);
}

static _Noreturn void fail(int report, enum stage stage)
{
    struct report said = {.stage = stage, .reason = errno};
    ssize_t ignored = write(report, &said, sizeof said);
    (void)ignored;
    _exit(127);
}

/* Sources go out of the way first: one may stand where another has to go. */
static bool place_fds(const struct spawn *spawn, int report)
{
    int high[SPAWN_FDS_MAX];
    for (int i = 0; i < spawn->fd_count; i++) {
        high[i] = fcntl(spawn->fds[i], F_DUPFD_CLOEXEC, HIGH_FD);
        if (high[i] < 0)
            return false;
    }
    for (int i = 0; i < spawn->fd_count; i++) {
        if (dup2(high[i], i) < 0)
            return false;
        /* Pipes and terminals are the program's own: it may open /dev/stdout as such. */
        struct stat status;
        if (fstat(i, &status) == 0 && (S_ISFIFO(status.st_mode) || isatty(i)))
            fchown(i, spawn->account->uid, spawn->account->gid);
    }
    syscall(SYS_close_range, (unsigned)spawn->fd_count, (unsigned)report - 1, 0);
    syscall(SYS_close_range, (unsigned)report + 1, ~0U, 0);
    return true;
}

/* A jail that has one id alone cannot choose groups: it keeps that one. */
static bool groups_are_fixed(void)
{
    char word[8] = "";
    cleanup_fd int fd = open("/proc/self/setgroups", O_RDONLY | O_CLOEXEC);
    return fd >= 0 && read(fd, word, sizeof word - 1) > 0 && strncmp(word, "deny", 4) == 0;
}

/* Straight system calls: the C library's versions want to reach all threads. */
static bool become(const struct account *account)
{
    return (syscall(SYS_setgroups, account->group_count, account->groups) == 0 ||
            groups_are_fixed()) &&
           syscall(SYS_setresgid, account->gid, account->gid, account->gid) == 0 &&
           syscall(SYS_setresuid, account->uid, account->uid, account->uid) == 0;
}

/* It is a copy of the agent: others of the same user may not look into it. */
static _Noreturn void do_work(const struct spawn *spawn)
{
    prctl(PR_SET_DUMPABLE, 0);
    _exit(spawn->work(spawn->owner));
}

static _Noreturn void run_child(const struct spawn *spawn, int report_fd)
{
    int report = fcntl(report_fd, F_DUPFD_CLOEXEC, HIGH_FD);
    signals_reset();
    setsid();
    if (report < 0 || !place_fds(spawn, report))
        fail(report_fd, STAGE_SETUP);
    if (spawn->terminal && ioctl(0, TIOCSCTTY, 0) < 0)
        fail(report, STAGE_SETUP);
    setrlimit(RLIMIT_NOFILE, &file_limit);
    /* 1 stands for none at all; with 0 a program of the host that takes core dumps still would. */
    setrlimit(RLIMIT_CORE, &(struct rlimit){1, 1});
    umask(022);
    restore_score();
    if (machine_is_jail() && !privileges_prepare_drop())
        fail(report, STAGE_SETUP);
    if (!become(spawn->account))
        fail(report, STAGE_USER);
    if (chdir(spawn->cwd) < 0)
        fail(report, STAGE_CWD);
    if (machine_is_jail() && !privileges_drop())
        fail(report, STAGE_SETUP);
    if (spawn->work)
        do_work(spawn);
    environ = spawn->env;
    execvp(spawn->argv[0], spawn->argv);
    int reason = errno;
    bool there = strchr(spawn->argv[0], '/') && access(spawn->argv[0], F_OK) == 0;
    errno = reason;
    fail(report, reason == ENOENT && there ? STAGE_INTERPRETER : STAGE_PROGRAM);
}

/* Born inside its scope; a kernel that cannot do that gets a child that moves itself there. */
static pid_t fork_into(const struct scope *scope)
{
    int folder = scope_folder(scope);
    if (folder < 0)
        return fork();
    struct clone_arguments arguments = {
        .flags = CLONE_INTO_CGROUP_FLAG, .exit_signal = SIGCHLD, .cgroup = (uint64_t)folder};
    pid_t pid = (pid_t)syscall(SYS_clone3, &arguments, sizeof arguments);
    if (pid >= 0 || (errno != ENOSYS && errno != EINVAL && errno != E2BIG))
        return pid;
    pid = fork();
    if (pid == 0) {
        cleanup_fd int fd = openat(folder, "cgroup.procs", O_WRONLY | O_CLOEXEC);
        if (fd < 0 || write(fd, "0", 1) != 1)
            _exit(127);
    }
    return pid;
}

pid_t spawn_start(const struct spawn *spawn, int *report, struct error *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
        return error_errno(err, errno, "cannot make a pipe");
    pid_t pid = fork_into(spawn->scope);
    if (pid == 0)
        run_child(spawn, ends[1]);
    int reason = errno;
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        if (reason != EAGAIN)
            return error_errno(err, reason, "cannot start %.200s", spawn->argv[0]);
        error_set(err, ERROR_LIMIT,
                  "cannot start %.200s: the sandbox has as many processes as it may",
                  spawn->argv[0]);
        return error_hint(err, "end some of them, or start it with a higher limit of processes");
    }
    scope_set_leader(spawn->scope, pid);
    *report = ends[0];
    return pid;
}

struct outcome spawn_ended(int status)
{
    if (WIFSIGNALED(status))
        return (struct outcome){.verdict = VERDICT_SIGNALED, .signal = WTERMSIG(status)};
    return (struct outcome){.verdict = VERDICT_EXITED, .exit_code = WEXITSTATUS(status)};
}

int spawn_pipes_open(struct spawn_pipes *pipes, struct error *err)
{
    for (int i = 0; i < 3; i++) {
        int ends[2];
        if (pipe2(ends, O_CLOEXEC) < 0) {
            int reason = errno;
            while (i-- > 0) {
                close(pipes->ours[i]);
                close(pipes->theirs[i]);
            }
            return error_errno(err, reason, "cannot make a pipe");
        }
        pipes->theirs[i] = ends[i == 0 ? 0 : 1];
        pipes->ours[i] = ends[i == 0 ? 1 : 0];
        fcntl(pipes->ours[i], F_SETFL, O_NONBLOCK);
    }
    return 0;
}

static int explain(const struct report *said, const char *program, const char *cwd, int *exit_code,
                   struct error *err)
{
    *exit_code = said->reason == ENOENT && said->stage == STAGE_PROGRAM ? 127 : 126;
    switch (said->stage) {
    case STAGE_USER:
        error_errno(err, said->reason, "cannot become the user to run %.200s", program);
        return error_hint(err, "where the sandbox has one user alone (see msb doctor), run it as "
                               "that one");
    case STAGE_CWD:
        error_errno(err, said->reason, "cannot enter the working folder %.200s", cwd);
        return error_hint(err, "create it in the sandbox or choose another one");
    case STAGE_INTERPRETER:
        error_set(err, ERROR_NOT_FOUND, "%.200s is there, but what it needs to run is not",
                  program);
        return error_hint(err, "its #! line or its loader names a file that the image lacks");
    case STAGE_PROGRAM:
        if (said->reason != ENOENT)
            return error_errno(err, said->reason, "cannot run %.200s", program);
        error_set(err, ERROR_NOT_FOUND, "there is no program %.200s in the sandbox", program);
        return error_hint(err, "check its name and PATH, or use an image that has it");
    default:
        return error_errno(err, said->reason, "cannot set up %.200s", program);
    }
}

int spawn_outcome(int report, const char *program, const char *cwd, int *exit_code,
                  struct error *err)
{
    struct report said;
    ssize_t got = read(report, &said, sizeof said);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return 1;
    if (got != sizeof said)
        return 0;
    return explain(&said, program, cwd, exit_code, err);
}
