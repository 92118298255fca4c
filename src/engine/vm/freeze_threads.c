#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "engine/vm/freeze_internal.h"

#ifdef __x86_64__

static int by_number(const void *a, const void *b)
{
    pid_t first = *(const pid_t *)a, second = *(const pid_t *)b;
    return first < second ? -1 : first > second;
}

static bool await_stop(pid_t thread)
{
    int status = 0;
    pid_t ended;
    do
        ended = waitpid(thread, &status, __WALL);
    while (ended < 0 && errno == EINTR);
    return ended == thread && WIFSTOPPED(status);
}

static int hold_thread(struct freezing *f, pid_t thread, struct error *err)
{
    if (ptrace(PTRACE_SEIZE, thread, NULL, NULL) < 0)
        return error_errno(err, errno, "cannot hold a thread");
    f->threads[f->thread_count++] = thread;
    if (ptrace(PTRACE_INTERRUPT, thread, NULL, NULL) < 0 || !await_stop(thread))
        return error_errno(err, errno, "cannot stop a thread");
    return 0;
}

int freeze_hold(struct freezing *f, struct error *err)
{
    cleanup_free char *path = xasprintf("/proc/%d/task", (int)f->process);
    DIR *tasks = opendir(path);
    struct dirent *entry;
    int result = tasks ? 0 : error_errno(err, errno, "cannot open %s", path);
    while (result == 0 && (entry = readdir(tasks))) {
        pid_t thread = (pid_t)strtol(entry->d_name, NULL, 10);
        if (thread > 0 && f->thread_count == FROZEN_THREADS_MAX)
            result = error_set(err, ERROR_LIMIT, "too many threads");
        else if (thread > 0)
            result = hold_thread(f, thread, err);
    }
    if (tasks)
        closedir(tasks);
    qsort(f->threads, f->thread_count, sizeof f->threads[0], by_number);
    return result;
}

void freeze_let_go(const struct freezing *f)
{
    for (size_t i = 0; i < f->thread_count; i++)
        ptrace(PTRACE_DETACH, f->threads[i], NULL, NULL);
}

/* The last number is the one in the innermost namespace. */
static int own_number(const struct freezing *f, pid_t thread, uint64_t *number, struct error *err)
{
    cleanup_buf struct buf status = {0};
    char name[64];
    snprintf(name, sizeof name, "task/%d/status", (int)thread);
    if (freeze_read(f, name, &status, err) < 0)
        return -1;
    const char *line = strstr(buf_text(&status), "\nNSpid:");
    const char *end = line ? strchr(line + 1, '\n') : NULL;
    while (end && end[-1] != '\t')
        end--;
    *number = end ? strtoull(end, NULL, 10) : 0;
    return *number ? 0 : error_set(err, ERROR_IO, "a thread has no number");
}

/* The C library keeps it in the thread's own structure, at the same place in all versions since
 * 2.4; if it is not there, this is another library. */
#define NUMBER_OFFSET 0x2d0

static int find_number(const struct freezing *f, struct frozen_thread *thread, struct error *err)
{
    int32_t found = 0;
    thread->number_at = thread->fs_base + NUMBER_OFFSET;
    if (pread(f->mem, &found, sizeof found, (off_t)thread->number_at) == sizeof found &&
        (uint64_t)found == thread->number)
        return 0;
    return error_set(err, ERROR_MISSING, "this C library is not known");
}

/* A call that was interrupted begins anew; one that would need the kernel's help for that is
 * interrupted, which all of QEMU's loops are used to. */
static void rewind_call(struct user_regs_struct *regs)
{
    long result = (long)regs->rax;
    bool in_call = (long)regs->orig_rax >= 0;
    if (in_call && (result == -512 || result == -513 || result == -514)) {
        regs->rax = regs->orig_rax;
        regs->rip -= 2;
    } else if (in_call && result == -516) {
        regs->rax = (unsigned long)-EINTR;
    }
}

static void take_registers(const struct user_regs_struct *regs, struct frozen_thread *thread)
{
    const uint64_t all[] = {regs->r8,  regs->r9,  regs->r10, regs->r11, regs->r12, regs->r13,
                            regs->r14, regs->r15, regs->rdi, regs->rsi, regs->rbp, regs->rbx,
                            regs->rdx, regs->rax, regs->rcx, regs->rsp, regs->rip, regs->eflags};
    _Static_assert(sizeof all == sizeof thread->registers, "one each");
    memcpy(thread->registers, all, sizeof all);
    thread->fs_base = regs->fs_base;
}

/* Processors of old know only the first part of it. */
static int take_xstate(pid_t number, struct frozen_thread *thread)
{
    struct iovec all = {thread->xstate, sizeof thread->xstate - FROZEN_XSTATE_END};
    if (ptrace(PTRACE_GETREGSET, number, NT_X86_XSTATE, &all) == 0) {
        thread->xstate_length = all.iov_len;
        return 0;
    }
    thread->xstate_length = FROZEN_XSTATE_OLD;
    return errno == ENODEV ? (int)ptrace(PTRACE_GETFPREGS, number, NULL, thread->xstate) : -1;
}

static int describe_thread(struct freezing *f, pid_t number, struct frozen_thread *thread,
                           struct error *err)
{
    struct user_regs_struct regs;
    struct __ptrace_rseq_configuration rseq = {0};
    void *robust = NULL;
    size_t robust_length = 0;
    if (ptrace(PTRACE_GETREGS, number, NULL, &regs) < 0 || take_xstate(number, thread) < 0 ||
        ptrace(PTRACE_GETSIGMASK, number, sizeof thread->signals, &thread->signals) < 0 ||
        syscall(SYS_get_robust_list, number, &robust, &robust_length) < 0)
        return error_errno(err, errno, "cannot look at a thread");
    if (ptrace(PTRACE_GET_RSEQ_CONFIGURATION, number, sizeof rseq, &rseq) > 0) {
        thread->rseq = rseq.rseq_abi_pointer;
        thread->rseq_length = rseq.rseq_abi_size;
        thread->rseq_signature = rseq.signature;
    }
    rewind_call(&regs);
    take_registers(&regs, thread);
    thread->robust_list = (uint64_t)robust;
    thread->robust_length = robust_length;
    int result = own_number(f, number, &thread->number, err);
    return result < 0 ? result : find_number(f, thread, err);
}

static int take_signals(struct freezing *f, struct error *err)
{
    cleanup_buf struct buf status = {0};
    if (freeze_read(f, "status", &status, err) < 0)
        return -1;
    const char *line = strstr(buf_text(&status), "\nSigIgn:");
    f->head.ignored = line ? strtoull(line + strlen("\nSigIgn:"), NULL, 16) : 0;
    return line ? 0 : error_set(err, ERROR_IO, "cannot read signals");
}

int freeze_threads(struct freezing *f, struct error *err)
{
    int result = take_signals(f, err);
    for (size_t i = 0; result == 0 && i < f->thread_count; i++) {
        struct frozen_thread *thread = xcalloc(1, sizeof *thread);
        result = describe_thread(f, f->threads[i], thread, err);
        buf_append(&f->thread_table, thread, sizeof *thread);
        free(thread);
    }
    f->head.thread_count = f->thread_count;
    return result;
}

#else

int freeze_hold(struct freezing *f, struct error *err)
{
    (void)f;
    return error_set(err, ERROR_MISSING, "machines are frozen on x86-64 only");
}

void freeze_let_go(const struct freezing *f)
{
    (void)f;
}

int freeze_threads(struct freezing *f, struct error *err)
{
    return freeze_hold(f, err);
}

#endif
