/*
 * The list of system calls that exist in a jail. What is not named here does not exist (ENOSYS),
 * which libraries take as "an old kernel" and work around. What is named as dangerous is refused
 * (EPERM), so that programs say what they were not allowed to do. Calls of another architecture
 * (32-bit, x32) end the process: no program of the image makes them by accident.
 *
 * None of this is what keeps a jail's processes from the host's files and processes: namespaces
 * and the lack of capabilities do that. The list is about how much of the kernel a hostile program
 * can talk to at all.
 */
#include "engine/jail/filter.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"

#define CALL(name) SCMP_SYS(name)

static const int allowed[] = {
    /* memory */
    CALL(brk),
    CALL(mmap),
    CALL(munmap),
    CALL(mremap),
    CALL(mprotect),
    CALL(madvise),
    CALL(mincore),
    CALL(msync),
    CALL(mlock),
    CALL(mlock2),
    CALL(munlock),
    CALL(mlockall),
    CALL(munlockall),
    CALL(membarrier),
    CALL(memfd_create),
    CALL(pkey_alloc),
    CALL(pkey_free),
    CALL(pkey_mprotect),
    CALL(get_mempolicy),
    /* descriptors */
    CALL(read),
    CALL(write),
    CALL(readv),
    CALL(writev),
    CALL(pread64),
    CALL(pwrite64),
    CALL(preadv),
    CALL(pwritev),
    CALL(preadv2),
    CALL(pwritev2),
    CALL(lseek),
    CALL(close),
    CALL(close_range),
    CALL(dup),
    CALL(dup2),
    CALL(dup3),
    CALL(fcntl),
    CALL(ioctl),
    CALL(flock),
    CALL(pipe),
    CALL(pipe2),
    CALL(splice),
    CALL(tee),
    CALL(vmsplice),
    CALL(sendfile),
    CALL(copy_file_range),
    CALL(fsync),
    CALL(fdatasync),
    CALL(sync),
    CALL(syncfs),
    CALL(sync_file_range),
    CALL(fallocate),
    CALL(ftruncate),
    CALL(truncate),
    CALL(fadvise64),
    CALL(readahead),
    /* files by name */
    CALL(open),
    CALL(openat),
    CALL(creat),
    CALL(access),
    CALL(faccessat),
    CALL(faccessat2),
    CALL(stat),
    CALL(fstat),
    CALL(lstat),
    CALL(newfstatat),
    CALL(statx),
    CALL(statfs),
    CALL(fstatfs),
    CALL(getdents),
    CALL(getdents64),
    CALL(getcwd),
    CALL(chdir),
    CALL(fchdir),
    CALL(rename),
    CALL(renameat),
    CALL(renameat2),
    CALL(mkdir),
    CALL(mkdirat),
    CALL(rmdir),
    CALL(link),
    CALL(linkat),
    CALL(unlink),
    CALL(unlinkat),
    CALL(symlink),
    CALL(symlinkat),
    CALL(readlink),
    CALL(readlinkat),
    CALL(mknod),
    CALL(mknodat),
    CALL(chmod),
    CALL(fchmod),
    CALL(fchmodat),
    CALL(chown),
    CALL(fchown),
    CALL(lchown),
    CALL(fchownat),
    CALL(umask),
    CALL(utime),
    CALL(utimes),
    CALL(futimesat),
    CALL(utimensat),
    CALL(getxattr),
    CALL(lgetxattr),
    CALL(fgetxattr),
    CALL(listxattr),
    CALL(llistxattr),
    CALL(flistxattr),
    CALL(setxattr),
    CALL(lsetxattr),
    CALL(fsetxattr),
    CALL(removexattr),
    CALL(lremovexattr),
    CALL(fremovexattr),
    CALL(inotify_init),
    CALL(inotify_init1),
    CALL(inotify_add_watch),
    CALL(inotify_rm_watch),
    /* a program may shut itself in further */
    CALL(landlock_create_ruleset),
    CALL(landlock_add_rule),
    CALL(landlock_restrict_self),
    CALL(seccomp),
    /* waiting and time; settimeofday and its like are left out, the clock is the host's */
    CALL(poll),
    CALL(ppoll),
    CALL(select),
    CALL(pselect6),
    CALL(epoll_create),
    CALL(epoll_create1),
    CALL(epoll_ctl),
    CALL(epoll_wait),
    CALL(epoll_pwait),
    CALL(epoll_pwait2),
    CALL(eventfd),
    CALL(eventfd2),
    CALL(signalfd),
    CALL(signalfd4),
    CALL(timerfd_create),
    CALL(timerfd_settime),
    CALL(timerfd_gettime),
    CALL(timer_create),
    CALL(timer_settime),
    CALL(timer_gettime),
    CALL(timer_getoverrun),
    CALL(timer_delete),
    CALL(futex),
    CALL(futex_waitv),
    CALL(restart_syscall),
    CALL(nanosleep),
    CALL(clock_nanosleep),
    CALL(clock_gettime),
    CALL(clock_getres),
    CALL(gettimeofday),
    CALL(time),
    CALL(times),
    CALL(alarm),
    CALL(getitimer),
    CALL(setitimer),
    CALL(pause),
    /* sockets; of which kinds is said below */
    CALL(socket),
    CALL(socketpair),
    CALL(bind),
    CALL(listen),
    CALL(accept),
    CALL(accept4),
    CALL(connect),
    CALL(shutdown),
    CALL(getsockname),
    CALL(getpeername),
    CALL(getsockopt),
    CALL(setsockopt),
    CALL(sendto),
    CALL(recvfrom),
    CALL(sendmsg),
    CALL(recvmsg),
    CALL(sendmmsg),
    CALL(recvmmsg),
    /* processes, threads, signals; with which namespaces is said below. clone3: see
     * agent/privileges.c */
    CALL(fork),
    CALL(clone),
    CALL(vfork),
    CALL(clone3),
    CALL(execve),
    CALL(execveat),
    CALL(exit),
    CALL(exit_group),
    CALL(wait4),
    CALL(waitid),
    CALL(kill),
    CALL(tkill),
    CALL(tgkill),
    CALL(pidfd_open),
    CALL(pidfd_send_signal),
    CALL(rt_sigaction),
    CALL(rt_sigprocmask),
    CALL(rt_sigreturn),
    CALL(rt_sigpending),
    CALL(rt_sigtimedwait),
    CALL(rt_sigsuspend),
    CALL(rt_sigqueueinfo),
    CALL(rt_tgsigqueueinfo),
    CALL(sigaltstack),
    CALL(set_tid_address),
    CALL(set_robust_list),
    CALL(get_robust_list),
    CALL(rseq),
    CALL(arch_prctl),
    CALL(prctl),
    CALL(sched_yield),
    CALL(sched_getaffinity),
    CALL(sched_setaffinity),
    CALL(sched_getparam),
    CALL(sched_setparam),
    CALL(sched_getscheduler),
    CALL(sched_setscheduler),
    CALL(sched_getattr),
    CALL(sched_setattr),
    CALL(sched_get_priority_max),
    CALL(sched_get_priority_min),
    CALL(sched_rr_get_interval),
    CALL(getpriority),
    CALL(setpriority),
    CALL(ioprio_get),
    CALL(ioprio_set),
    CALL(getcpu),
    /* who and what it is; without capabilities the setters change nothing that matters */
    CALL(getpid),
    CALL(getppid),
    CALL(gettid),
    CALL(getpgid),
    CALL(getpgrp),
    CALL(setpgid),
    CALL(getsid),
    CALL(setsid),
    CALL(getuid),
    CALL(geteuid),
    CALL(getgid),
    CALL(getegid),
    CALL(getresuid),
    CALL(getresgid),
    CALL(getgroups),
    CALL(setuid),
    CALL(setgid),
    CALL(setreuid),
    CALL(setregid),
    CALL(setresuid),
    CALL(setresgid),
    CALL(setfsuid),
    CALL(setfsgid),
    CALL(setgroups),
    CALL(capget),
    CALL(capset),
    CALL(getrlimit),
    CALL(setrlimit),
    CALL(prlimit64),
    CALL(getrusage),
    CALL(sysinfo),
    CALL(uname),
    CALL(getrandom),
    CALL(sethostname),
    /* shared memory and queues between processes of the jail, which has a namespace for them */
    CALL(shmget),
    CALL(shmat),
    CALL(shmdt),
    CALL(shmctl),
    CALL(semget),
    CALL(semop),
    CALL(semtimedop),
    CALL(semctl),
    CALL(msgget),
    CALL(msgsnd),
    CALL(msgrcv),
    CALL(msgctl),
    CALL(mq_open),
    CALL(mq_unlink),
    CALL(mq_timedsend),
    CALL(mq_timedreceive),
    CALL(mq_notify),
    CALL(mq_getsetattr),
};

static const int refused[] = {
    /* the view of files is made once, from outside */
    CALL(mount),
    CALL(umount2),
    CALL(pivot_root),
    CALL(open_tree),
    CALL(move_mount),
    CALL(fsopen),
    CALL(fsconfig),
    CALL(fsmount),
    CALL(fspick),
    CALL(mount_setattr),
    CALL(swapon),
    CALL(swapoff),
    CALL(quotactl),
    CALL(acct),
    CALL(chroot),
    /* a handle names a file behind the back of the view */
    CALL(open_by_handle_at),
    CALL(fanotify_init),
    CALL(fanotify_mark),
    /* namespaces: see also clone below */
    CALL(unshare),
    CALL(setns),
    /* the kernel itself */
    CALL(init_module),
    CALL(finit_module),
    CALL(delete_module),
    CALL(kexec_load),
    CALL(kexec_file_load),
    CALL(reboot),
    CALL(syslog),
    CALL(iopl),
    CALL(ioperm),
    CALL(bpf),
    CALL(perf_event_open),
    CALL(lookup_dcookie),
    CALL(vhangup),
    CALL(setdomainname),
    /* the clock is the host's */
    CALL(settimeofday),
    CALL(clock_settime),
    CALL(clock_adjtime),
    CALL(adjtimex),
    /* other processes' memory; userfaultfd and io_uring have a history of kernel bugs, and
     * io_uring makes calls that no filter sees */
    CALL(ptrace),
    CALL(process_vm_readv),
    CALL(process_vm_writev),
    CALL(process_madvise),
    CALL(pidfd_getfd),
    CALL(kcmp),
    CALL(userfaultfd),
    CALL(io_uring_setup),
    CALL(io_uring_enter),
    CALL(io_uring_register),
    /* keys belong to users of the host, not to namespaces */
    CALL(keyctl),
    CALL(add_key),
    CALL(request_key),
    /* pages of other processes and nodes */
    CALL(move_pages),
    CALL(migrate_pages),
    CALL(mbind),
    CALL(set_mempolicy),
};

/* Calls that give a file its mode, and the number of the argument. */
static const struct {
    int call;
    unsigned mode;
} mode_setters[] = {
    {CALL(chmod), 1},   {CALL(fchmod), 1}, {CALL(fchmodat), 2}, {CALL(mkdir), 1},
    {CALL(mkdirat), 2}, {CALL(mknod), 1},  {CALL(mknodat), 2},  {CALL(open), 2},
    {CALL(openat), 3},  {CALL(creat), 1},
};

#define WORD 0xffffffffu
#define HAS(argument, bit) SCMP_CMP(argument, SCMP_CMP_MASKED_EQ, bit, bit)
#define IS(argument, value) SCMP_CMP(argument, SCMP_CMP_MASKED_EQ, WORD, value)

static int refuse_modes(scmp_filter_ctx filter)
{
    int result = 0;
    for (size_t i = 0; i < sizeof mode_setters / sizeof mode_setters[0]; i++) {
        int call = mode_setters[i].call;
        unsigned mode = mode_setters[i].mode;
        result |= seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), call, 1, HAS(mode, S_ISUID));
        result |= seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), call, 1, HAS(mode, S_ISGID));
    }
    return result;
}

/* A namespace of its own is what most attacks upon the kernel begin with. */
static int refuse_namespaces(scmp_filter_ctx filter)
{
    static const unsigned flags[] = {CLONE_NEWNS,   CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC,
                                     CLONE_NEWUSER, CLONE_NEWPID,    CLONE_NEWNET};
    int result = 0;
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++)
        result |= seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), CALL(clone), 1, HAS(0, flags[i]));
    return result;
}

/*
 * AF_ALG, AF_VSOCK, AF_PACKET and forty others are code of the kernel that nobody in here needs.
 * What is left: AF_UNIX, AF_INET, AF_INET6, and of AF_NETLINK the list of network interfaces.
 */
static int refuse_sockets(scmp_filter_ctx filter)
{
    const uint32_t unknown = SCMP_ACT_ERRNO(EAFNOSUPPORT);
    int result =
        seccomp_rule_add(filter, unknown, CALL(socket), 1, SCMP_A0(SCMP_CMP_GT, AF_NETLINK));
    result |= seccomp_rule_add(filter, unknown, CALL(socket), 2, SCMP_A0(SCMP_CMP_EQ, AF_NETLINK),
                               SCMP_A2(SCMP_CMP_NE, NETLINK_ROUTE));
    for (unsigned domain = 0; domain < AF_NETLINK; domain++) {
        if (domain != AF_UNIX && domain != AF_INET && domain != AF_INET6)
            result |=
                seccomp_rule_add(filter, unknown, CALL(socket), 1, SCMP_A0(SCMP_CMP_EQ, domain));
    }
    return result;
}

/* TIOCSTI puts words into the mouth of whoever sits at the terminal; the others do so with the
 * console. The kernel looks at 32 bits of the number. */
static int refuse_terminal_tricks(scmp_filter_ctx filter)
{
    static const unsigned requests[] = {TIOCSTI, TIOCLINUX, TIOCCONS};
    int result = 0;
    for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++)
        result |=
            seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), CALL(ioctl), 1, IS(1, requests[i]));
    return result;
}

/* Linux as it is, without random addresses (debuggers want that), and the mere question. */
static int allow_personalities(scmp_filter_ctx filter)
{
    static const unsigned values[] = {PER_LINUX, ADDR_NO_RANDOMIZE, WORD};
    int result = 0;
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
        result |= seccomp_rule_add(filter, SCMP_ACT_ALLOW, CALL(personality), 1, IS(0, values[i]));
    return result;
}

/* clone3 is for the agent alone (see agent/privileges.c), setns for the zygote alone. */
static int add_lists(scmp_filter_ctx filter, bool is_zygote)
{
    int result = allow_personalities(filter);
    for (size_t i = 0; i < sizeof allowed / sizeof allowed[0]; i++) {
        if (!is_zygote || allowed[i] != CALL(clone3))
            result |= seccomp_rule_add(filter, SCMP_ACT_ALLOW, allowed[i], 0);
    }
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        bool passes = is_zygote && refused[i] == CALL(setns);
        result |= seccomp_rule_add(filter, passes ? SCMP_ACT_ALLOW : SCMP_ACT_ERRNO(EPERM),
                                   refused[i], 0);
    }
    return result;
}

static int add_refusals(scmp_filter_ctx filter, bool guards_modes)
{
    int result =
        refuse_namespaces(filter) | refuse_sockets(filter) | refuse_terminal_tricks(filter);
    return guards_modes ? result | refuse_modes(filter) : result;
}

static scmp_filter_ctx begin(uint32_t action)
{
    scmp_filter_ctx filter = seccomp_init(action);
    if (filter && seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS) == 0)
        return filter;
    seccomp_release(filter);
    return NULL;
}

/* Two filters, both of which have to agree: which calls there are, and with which arguments not. Of
 * the file's beginning each has one number: where it ends. */
struct layout {
    off_t ends[2];
};

static bool write_both(int fd, scmp_filter_ctx refusals, scmp_filter_ctx lists)
{
    struct layout layout;
    if (lseek(fd, sizeof layout, SEEK_SET) < 0 || seccomp_export_bpf(refusals, fd) < 0)
        return false;
    layout.ends[0] = lseek(fd, 0, SEEK_CUR);
    if (seccomp_export_bpf(lists, fd) < 0)
        return false;
    layout.ends[1] = lseek(fd, 0, SEEK_CUR);
    return pwrite(fd, &layout, sizeof layout, 0) == sizeof layout;
}

static int cannot_make(struct error *err)
{
    return error_set(err, ERROR_MISSING, "the system call filter cannot be made");
}

static int make(bool guards_modes, bool is_zygote, struct error *err)
{
    cleanup_fd int fd = memfd_create("filter", MFD_CLOEXEC);
    scmp_filter_ctx lists = begin(SCMP_ACT_ERRNO(ENOSYS));
    scmp_filter_ctx refusals = begin(SCMP_ACT_ALLOW);
    bool good = fd >= 0 && lists && refusals && add_lists(lists, is_zygote) == 0 &&
                add_refusals(refusals, guards_modes) == 0 && write_both(fd, refusals, lists);
    seccomp_release(lists);
    seccomp_release(refusals);
    return good ? steal_fd(&fd) : cannot_make(err);
}

int filter_make(bool guards_modes, struct error *err)
{
    return make(guards_modes, false, err);
}

int filter_make_zygote(struct error *err)
{
    return make(false, true, err);
}

static int add_rest(scmp_filter_ctx filter, bool guards_modes)
{
    int result = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), CALL(setns), 0);
    return guards_modes ? result | refuse_modes(filter) : result;
}

int filter_write_rest(bool guards_modes, struct buf *program, struct error *err)
{
    cleanup_fd int memory = memfd_create("filter", MFD_CLOEXEC);
    scmp_filter_ctx rest = begin(SCMP_ACT_ALLOW);
    bool good = rest && memory >= 0 && add_rest(rest, guards_modes) == 0 &&
                seccomp_export_bpf(rest, memory) == 0;
    seccomp_release(rest);
    off_t size = good ? lseek(memory, 0, SEEK_END) : 0;
    if (size <= 0 || pread(memory, buf_reserve(program, (size_t)size), (size_t)size, 0) != size)
        return cannot_make(err);
    buf_commit(program, (size_t)size);
    return 0;
}

static bool load(const uint8_t *bytes, off_t from, off_t to)
{
    struct sock_fprog program = {
        .len = (unsigned short)((size_t)(to - from) / sizeof(struct sock_filter)),
        .filter = (struct sock_filter *)(uintptr_t)(bytes + from),
    };
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

int filter_install(int filter, struct error *err)
{
    struct layout layout;
    if (pread(filter, &layout, sizeof layout, 0) != sizeof layout)
        return error_set(err, ERROR_IO, "the system call filter is cut short");
    const uint8_t *bytes = mmap(NULL, (size_t)layout.ends[1], PROT_READ, MAP_PRIVATE, filter, 0);
    if (bytes == MAP_FAILED || !load(bytes, sizeof layout, layout.ends[0]) ||
        !load(bytes, layout.ends[0], layout.ends[1]))
        return error_errno(err, errno, "the kernel refuses our system call filter");
    return 0;
}
