/*
 * The system calls QEMU may make. Whatever is not named here does not exist for it (ENOSYS), which
 * libraries take as "an old kernel" and work around.
 */
#include "engine/vm/confine_calls.h"

#include <asm/ioctls.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const int allowed[] = {
    /* memory */
    SCMP_SYS(brk),
    SCMP_SYS(mmap),
    SCMP_SYS(munmap),
    SCMP_SYS(mremap),
    SCMP_SYS(mprotect),
    SCMP_SYS(mincore),
    SCMP_SYS(membarrier),
    SCMP_SYS(memfd_create),
    /* files by descriptor: disks, the machine's state */
    SCMP_SYS(read),
    SCMP_SYS(write),
    SCMP_SYS(readv),
    SCMP_SYS(writev),
    SCMP_SYS(pread64),
    SCMP_SYS(pwrite64),
    SCMP_SYS(preadv),
    SCMP_SYS(pwritev),
    SCMP_SYS(preadv2),
    SCMP_SYS(pwritev2),
    SCMP_SYS(lseek),
    SCMP_SYS(close),
    SCMP_SYS(close_range),
    SCMP_SYS(dup),
    SCMP_SYS(dup2),
    SCMP_SYS(dup3),
    SCMP_SYS(fsync),
    SCMP_SYS(fdatasync),
    SCMP_SYS(fallocate),
    SCMP_SYS(ftruncate),
    SCMP_SYS(sync_file_range),
    SCMP_SYS(copy_file_range),
    SCMP_SYS(fstat),
    SCMP_SYS(fstatfs),
    SCMP_SYS(statfs),
    SCMP_SYS(flock),
    SCMP_SYS(fadvise64),
    SCMP_SYS(pipe2),
    /* files by name: start-up, then the shared folders */
    SCMP_SYS(newfstatat),
    SCMP_SYS(statx),
    SCMP_SYS(stat),
    SCMP_SYS(lstat),
    SCMP_SYS(access),
    SCMP_SYS(faccessat),
    SCMP_SYS(faccessat2),
    SCMP_SYS(readlink),
    SCMP_SYS(readlinkat),
    SCMP_SYS(getcwd),
    SCMP_SYS(getdents64),
    SCMP_SYS(umask),
    SCMP_SYS(fgetxattr),
    SCMP_SYS(flistxattr),
    SCMP_SYS(lgetxattr),
    SCMP_SYS(llistxattr),
    /* waiting */
    SCMP_SYS(poll),
    SCMP_SYS(ppoll),
    SCMP_SYS(select),
    SCMP_SYS(pselect6),
    SCMP_SYS(epoll_create1),
    SCMP_SYS(epoll_ctl),
    SCMP_SYS(epoll_wait),
    SCMP_SYS(epoll_pwait),
    SCMP_SYS(eventfd2),
    SCMP_SYS(signalfd4),
    SCMP_SYS(timerfd_create),
    SCMP_SYS(timerfd_settime),
    SCMP_SYS(timerfd_gettime),
    SCMP_SYS(futex),
    SCMP_SYS(restart_syscall),
    SCMP_SYS(nanosleep),
    SCMP_SYS(clock_nanosleep),
    SCMP_SYS(clock_gettime),
    SCMP_SYS(clock_getres),
    SCMP_SYS(gettimeofday),
    SCMP_SYS(time),
    SCMP_SYS(timer_create),
    SCMP_SYS(timer_settime),
    SCMP_SYS(timer_gettime),
    SCMP_SYS(timer_delete),
    /* the connected sockets it was given; it can make none */
    SCMP_SYS(sendmsg),
    SCMP_SYS(recvmsg),
    SCMP_SYS(sendto),
    SCMP_SYS(recvfrom),
    SCMP_SYS(shutdown),
    SCMP_SYS(getsockname),
    SCMP_SYS(getpeername),
    SCMP_SYS(getsockopt),
    SCMP_SYS(setsockopt),
    /* threads and signals */
    SCMP_SYS(set_tid_address),
    SCMP_SYS(set_robust_list),
    SCMP_SYS(get_robust_list),
    SCMP_SYS(rseq),
    SCMP_SYS(arch_prctl),
    SCMP_SYS(prctl),
    SCMP_SYS(gettid),
    SCMP_SYS(getpid),
    SCMP_SYS(getppid),
    SCMP_SYS(rt_sigaction),
    SCMP_SYS(rt_sigprocmask),
    SCMP_SYS(rt_sigreturn),
    SCMP_SYS(rt_sigpending),
    SCMP_SYS(rt_sigtimedwait),
    SCMP_SYS(rt_sigsuspend),
    SCMP_SYS(sigaltstack),
    SCMP_SYS(sched_yield),
    SCMP_SYS(sched_getaffinity),
    SCMP_SYS(exit),
    SCMP_SYS(exit_group),
    /* facts about itself and the host */
    SCMP_SYS(uname),
    SCMP_SYS(getuid),
    SCMP_SYS(geteuid),
    SCMP_SYS(getgid),
    SCMP_SYS(getegid),
    SCMP_SYS(getrlimit),
    SCMP_SYS(getrusage),
    SCMP_SYS(sysinfo),
    SCMP_SYS(getrandom),
    SCMP_SYS(capget),
    SCMP_SYS(getpgrp),
    /* it is started by execve; its own second filter takes that and new filters away */
    SCMP_SYS(execve),
    SCMP_SYS(seccomp),
};

/* They change the shared folders. */
static const int changing[] = {
    SCMP_SYS(unlinkat),  SCMP_SYS(renameat),     SCMP_SYS(renameat2), SCMP_SYS(linkat),
    SCMP_SYS(symlinkat), SCMP_SYS(fchown),       SCMP_SYS(fchownat),  SCMP_SYS(utimensat),
    SCMP_SYS(fsetxattr), SCMP_SYS(fremovexattr), SCMP_SYS(lsetxattr), SCMP_SYS(lremovexattr),
};

/* They could reach other processes of its user, which only namespaces hide. */
static const int reaching[] = {
    SCMP_SYS(fcntl),
    SCMP_SYS(ioctl),
    SCMP_SYS(prlimit64),
    SCMP_SYS(tgkill),
};

/* What it needs of fcntl and ioctl where it can see others: signals can be sent through
 * descriptors, by the commands that name an owner. */
static const unsigned commands_fcntl[] = {
    F_DUPFD, F_DUPFD_CLOEXEC, F_GETFD,     F_SETFD,     F_GETFL,      F_SETFL,     F_GETLK,
    F_SETLK, F_SETLKW,        F_OFD_GETLK, F_OFD_SETLK, F_OFD_SETLKW, F_GET_SEALS, F_ADD_SEALS,
};
static const unsigned commands_ioctl[] = {
    TCGETS, FIONBIO, FIONREAD, BLKGETSIZE64, FS_IOC_FIEMAP, FS_IOC_GETVERSION, FS_IOC_GETFLAGS,
};
#define KVM_COMMANDS 0xae00 /* in the second byte, of what is done with /dev/kvm */

/* A shared folder must not become a way to plant setuid programs on the host: calls that give a
 * file its mode (the argument of that number) work only without those bits. */
static const struct {
    int call;
    unsigned mode_argument;
} mode_setters[] = {
    {SCMP_SYS(chmod), 1},   {SCMP_SYS(fchmod), 1},  {SCMP_SYS(fchmodat), 2},
    {SCMP_SYS(mkdirat), 2}, {SCMP_SYS(mknodat), 2},
};

#define HAS_BIT(argument, bit) SCMP_CMP(argument, SCMP_CMP_MASKED_EQ, bit, bit)
#define NO_SETID(argument) SCMP_CMP(argument, SCMP_CMP_MASKED_EQ, S_ISUID | S_ISGID, 0)

static int add_mode_setters(scmp_filter_ctx filter)
{
    int result = 0;
    for (size_t i = 0; i < sizeof mode_setters / sizeof mode_setters[0]; i++) {
        int call = mode_setters[i].call;
        unsigned mode = mode_setters[i].mode_argument;
        result |= seccomp_rule_add(filter, SCMP_ACT_ALLOW, call, 1, NO_SETID(mode));
        result |= seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), call, 1, HAS_BIT(mode, S_ISUID));
        result |= seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), call, 1, HAS_BIT(mode, S_ISGID));
    }
    return result;
}

/* Huge pages are for what is large, translated code: the pages of a small thing would be mostly
 * empty, and in every machine anew. */
#define LARGE ((scmp_datum_t)16 << 20)

static int add_advice(scmp_filter_ctx filter)
{
    int result = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(madvise), 1,
                                  SCMP_A2(SCMP_CMP_NE, MADV_HUGEPAGE));
    result |= seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(madvise), 2,
                               SCMP_A1(SCMP_CMP_GE, LARGE), SCMP_A2(SCMP_CMP_EQ, MADV_HUGEPAGE));
    return result;
}

#define LOW_32 0xffffffffu
#define BY_NAME SCMP_A0(SCMP_CMP_MASKED_EQ, LOW_32, (uint32_t)AT_FDCWD)
#define FOR_READING(flags) SCMP_CMP(flags, SCMP_CMP_MASKED_EQ, O_ACCMODE | O_CREAT | O_TRUNC, 0)
#define BELOW_A_FOLDER SCMP_A0(SCMP_CMP_MASKED_EQ, 1u << 31, 0)

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

static int allow_each(scmp_filter_ctx filter, const int *calls, size_t count)
{
    int result = 0;
    for (size_t i = 0; i < count; i++)
        result |= seccomp_rule_add(filter, SCMP_ACT_ALLOW, calls[i], 0);
    return result;
}

static int allow_commands(scmp_filter_ctx filter, int call, const unsigned *commands, size_t count)
{
    int result = 0;
    for (size_t i = 0; i < count; i++)
        result |= seccomp_rule_add(filter, SCMP_ACT_ALLOW, call, 1,
                                   SCMP_A1(SCMP_CMP_MASKED_EQ, LOW_32, commands[i]));
    return result;
}

/* As much of them as ends in this process. */
static int add_own_reach(scmp_filter_ctx filter)
{
    int result = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(tgkill), 1,
                                  SCMP_A0(SCMP_CMP_MASKED_EQ, LOW_32, (unsigned)getpid()));
    result |= seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(prlimit64), 1,
                               SCMP_A0(SCMP_CMP_MASKED_EQ, LOW_32, 0));
    result |= allow_commands(filter, SCMP_SYS(fcntl), commands_fcntl, COUNT(commands_fcntl));
    result |= allow_commands(filter, SCMP_SYS(ioctl), commands_ioctl, COUNT(commands_ioctl));
    result |= seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(ioctl), 1,
                               SCMP_A1(SCMP_CMP_MASKED_EQ, 0xff00, KVM_COMMANDS));
    return result;
}

static int add_rules(scmp_filter_ctx filter, const struct confine_calls *options)
{
    int result = allow_each(filter, allowed, COUNT(allowed));
    result |=
        options->is_alone ? allow_each(filter, reaching, COUNT(reaching)) : add_own_reach(filter);
    if (options->changes_files) {
        result |= allow_each(filter, changing, COUNT(changing));
        result |= add_mode_setters(filter);
    }
    result |= add_advice(filter);
    /* Threads, not processes. clone3 hides its flags behind a pointer and is left out. */
    result |= seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
                               SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, CLONE_THREAD));
    /* Opens: below a folder it holds (shared folders) and by name for reading; by name for
     * writing is reported to us. */
    result |= options->changes_files ? seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(openat), 2,
                                                        BELOW_A_FOLDER, NO_SETID(3))
                                     : seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(openat), 2,
                                                        BELOW_A_FOLDER, FOR_READING(2));
    result |= seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(openat), 2, BY_NAME,
                               SCMP_A2(SCMP_CMP_MASKED_EQ, O_ACCMODE, O_RDONLY));
    result |= seccomp_rule_add(filter, SCMP_ACT_NOTIFY, SCMP_SYS(openat), 2, BY_NAME,
                               SCMP_A2(SCMP_CMP_MASKED_EQ, O_ACCMODE, O_RDWR));
    return result;
}

int confine_calls(const struct confine_calls *options, struct error *err)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(ENOSYS));
    if (!filter)
        return error_set(err, ERROR_IO, "cannot make a system call filter");
    int result = add_rules(filter, options);
    if (result == 0)
        result = seccomp_load(filter);
    int listener = result == 0 ? seccomp_notify_fd(filter) : -1;
    seccomp_release(filter);
    if (listener < 0)
        return error_set(err, ERROR_MISSING, "the kernel refuses our system call filter");
    return listener;
}
