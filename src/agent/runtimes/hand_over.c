/*
 * A library for copies of the zygote (python_jails.py), with no other library in it. A process that
 * has joined a process namespace is still outside of it, only its children are inside. A child that
 * is a copy would cost the time for the copying, so this one gets the memory itself: it goes on in
 * it while the process that made it ends. In between there is a third one, whose orphan it becomes:
 * orphans of a namespace belong to its first process.
 *
 * All three have one stack. So those that end do nothing any more but what registers suffice for.
 */
#include <linux/sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/syscall.h>

#define RSEQ_SIZE 32
#define RSEQ_UNREGISTER 1
#define RSEQ_SIGNATURE 0x53053053

/*
 * 0 in the new process; anything else: nothing has happened. `thread` is where the C library keeps
 * the number of the calling thread, the only one; `rseq` is its area for restartable sequences, or
 * NULL. Signals must be blocked.
 */
long hand_over(int *thread, void *rseq);

#ifdef __x86_64__

static long call(long number, long first, long second, long third, long fourth)
{
    register long r10 __asm__("r10") = fourth;
    __asm__ volatile("syscall"
                     : "+a"(number)
                     : "D"(first), "S"(second), "d"(third), "r"(r10)
                     : "rcx", "r11", "memory");
    return number;
}

static long go_on_elsewhere(int *thread)
{
    long result = SYS_clone;
    long flags = CLONE_VM | CLONE_VFORK | SIGCHLD;
    register int *r10 __asm__("r10") = thread;
    register long r8 __asm__("r8") = 0;
    __asm__ volatile("syscall\n\t"
                     "test %%rax, %%rax\n\t"
                     "js 3f\n\t"
                     "jz 1f\n\t"
                     "jmp 2f\n" /* the first one: woken when the second ends */
                     "1:\n\t"   /* the second one */
                     "mov %[clone], %%eax\n\t"
                     "mov %[flags], %%edi\n\t"
                     "syscall\n\t"
                     "test %%rax, %%rax\n\t"
                     "jz 3f\n" /* the third one */
                     "2:\n\t"
                     "mov %[exit], %%eax\n\t"
                     "xor %%edi, %%edi\n\t"
                     "syscall\n"
                     "3:"
                     : "+a"(result), "+D"(flags)
                     : "S"(0L), "d"(0L), "r"(r10),
                       "r"(r8), [clone] "i"(SYS_clone), [exit] "i"(SYS_exit_group),
                       [flags] "i"(CLONE_VM | CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID | SIGCHLD)
                     : "rcx", "r11", "memory", "cc");
    return result;
}

/* The kernel writes to these places for threads that run or end: only for the new one from now on.
 * The library does without `rseq` when it is told that there is none. */
long hand_over(int *thread, void *rseq)
{
    void *robust = NULL;
    size_t length = 0;
    call(SYS_get_robust_list, 0, (long)&robust, (long)&length, 0);
    call(SYS_set_tid_address, 0, 0, 0, 0);
    if (rseq)
        call(SYS_rseq, (long)rseq, RSEQ_SIZE, RSEQ_UNREGISTER, RSEQ_SIGNATURE);
    long result = go_on_elsewhere(thread);
    if (result == 0)
        call(SYS_set_robust_list, (long)robust, (long)length, 0, 0);
    else
        call(SYS_set_tid_address, (long)thread, 0, 0, 0);
    return result;
}

#else

long hand_over(int *thread, void *rseq)
{
    (void)thread, (void)rseq;
    return -1;
}

#endif
