/*
 * The program that becomes a frozen QEMU (frozen.h). It runs behind the wall in QEMU's place, with
 * no library, and lies where nothing of QEMU does. In the end all mappings, descriptors and threads
 * are those that were written down, and the threads go on.
 *
 * A thread goes on as if it came back from a signal: that is how the kernel loads all registers.
 */
#ifdef __x86_64__

#include <asm/prctl.h>
#include <elf.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include "engine/vm/frozen.h"

#define FILES_MAX 256
#define NUMBER_MAX 4096
/* Descriptors are put aside here before they take their places. */
#define ASIDE 256
#define TABLES ((void *)0x10000000)
#define TABLES_MAX (8u << 20)
#define SIGNAL_SET 8

static long call(long number, long a, long b, long c, long d, long e, long f)
{
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "+a"(number)
                     : "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return number;
}

#define CALL_1(name, a) call(SYS_##name, (long)(a), 0, 0, 0, 0, 0)
#define CALL_2(name, a, b) call(SYS_##name, (long)(a), (long)(b), 0, 0, 0, 0)
#define CALL_3(name, a, b, c) call(SYS_##name, (long)(a), (long)(b), (long)(c), 0, 0, 0)
#define CALL_4(name, a, b, c, d) call(SYS_##name, (long)(a), (long)(b), (long)(c), (long)(d), 0, 0)
#define CALL_5(name, a, b, c, d, e)                                                                \
    call(SYS_##name, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), 0)
#define CALL_6(name, a, b, c, d, e, f)                                                             \
    call(SYS_##name, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))

/* What the kernel finds when a thread comes back from its signal. */
struct frame {
    uint8_t room[1024]; /* stack of the thread until then */
    ucontext_t context;
    uint8_t xstate[FROZEN_XSTATE] __attribute__((aligned(64)));
} __attribute__((aligned(64)));

static struct frame frames[FROZEN_THREADS_MAX];
static long opened[FILES_MAX];
static uint8_t own_stack[16384] __attribute__((aligned(64), used));

__attribute__((noreturn)) static void fail(const char *what)
{
    static const char prefix[] = "a frozen machine could not be thawed: ";
    size_t length = 0;
    while (what[length])
        length++;
    CALL_3(write, 2, prefix, sizeof prefix - 1);
    CALL_3(write, 2, what, length);
    CALL_3(write, 2, "\n", 1);
    for (;;)
        CALL_1(exit_group, 1);
}

static void must(long result, const char *what)
{
    if (result < 0 && result > -4096)
        fail(what);
}

/* Compilers make calls of this by themselves. */
void *memcpy(void *restrict to, const void *restrict from, size_t length);
void *memcpy(void *restrict to, const void *restrict from, size_t length)
{
    void *result = to;
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(length) : : "memory");
    return result;
}

/* ---- memory -------------------------------------------------------------------------------- */

static const struct frozen *map_tables(void)
{
    struct frozen head = {0};
    long got = CALL_4(pread64, FROZEN_SELF, &head, sizeof head, 0);
    if (got != sizeof head || head.magic != FROZEN_MAGIC || head.tables_length > TABLES_MAX)
        fail("it is none");
    long at = CALL_6(mmap, TABLES, head.tables_length, PROT_READ, MAP_PRIVATE | MAP_FIXED_NOREPLACE,
                     FROZEN_SELF, 0);
    if (at != (long)TABLES)
        fail("no room for its tables");
    return TABLES;
}

static const void *table(const struct frozen *frozen, uint64_t offset)
{
    return (const uint8_t *)frozen + offset;
}

static const char *name_at(const struct frozen *frozen, uint64_t offset)
{
    return table(frozen, frozen->names + offset);
}

static void open_files(const struct frozen *frozen)
{
    const struct frozen_file *files = table(frozen, frozen->files);
    if (frozen->file_count > FILES_MAX)
        fail("too many libraries");
    for (uint64_t i = 0; i < frozen->file_count; i++) {
        struct stat status = {0};
        opened[i] = CALL_4(openat, AT_FDCWD, name_at(frozen, files[i].name), O_RDONLY, 0);
        must(opened[i], "a library is gone");
        must(CALL_2(fstat, opened[i], &status), "a library cannot be looked at");
        if (!frozen_is_file(&files[i], &status))
            fail("a library has changed");
    }
}

/* The C library of QEMU knows the kernel's own parts at another place. They are moved by a third
 * one, for old and new places may overlap. */
static void move_clock(const struct frozen *frozen, uint64_t code)
{
    uint64_t aside = (uint64_t)TABLES + TABLES_MAX;
    uint64_t begin = frozen->clock_parts[0].address;
    for (int back = 0; back < 2; back++) {
        for (uint64_t i = 0; i < frozen->clock_part_count; i++) {
            uint64_t to = frozen->clock_parts[i].address;
            uint64_t length = frozen->clock_parts[i].length;
            uint64_t ours = to - frozen->clock_code + code;
            uint64_t away = to - begin + aside;
            must(CALL_5(mremap, back ? away : ours, length, length, MREMAP_MAYMOVE | MREMAP_FIXED,
                        back ? to : away),
                 "the kernel's clocks do not move");
        }
    }
}

static void map_all(const struct frozen *frozen)
{
    const struct frozen_mapping *all = table(frozen, frozen->mappings);
    for (uint64_t i = 0; i < frozen->mapping_count; i++) {
        const struct frozen_mapping *one = &all[i];
        long fd = one->source == FROZEN_OF_NOTHING  ? -1
                  : one->source == FROZEN_OF_SELF   ? FROZEN_SELF
                  : one->source == FROZEN_OF_MEMORY ? FROZEN_MEMORY
                                                    : opened[one->source];
        long flags = MAP_PRIVATE | MAP_FIXED | (fd < 0 ? MAP_ANONYMOUS | MAP_NORESERVE : 0);
        must(CALL_6(mmap, one->address, one->length, one->protection, flags, fd, one->offset),
             "memory cannot be mapped");
    }
    for (uint64_t i = 0; i < frozen->file_count; i++)
        CALL_1(close, opened[i]);
}

/* ---- descriptors --------------------------------------------------------------------------- */

static long make_descriptor(const struct frozen *frozen, const struct frozen_descriptor *one)
{
    switch (one->kind) {
    case FROZEN_IS_GIVEN:
        return ASIDE + (long)one->value;
    case FROZEN_IS_EVENT:
        return CALL_2(eventfd2, one->value, one->flags & (O_NONBLOCK | O_CLOEXEC));
    case FROZEN_IS_EPOLL:
        return CALL_1(epoll_create1, one->flags & O_CLOEXEC);
    case FROZEN_IS_SIGNAL:
        return CALL_4(signalfd4, -1, &one->value, SIGNAL_SET,
                      one->flags & (O_NONBLOCK | O_CLOEXEC));
    case FROZEN_IS_FOLDER:
        return CALL_4(openat, AT_FDCWD, name_at(frozen, one->value), O_RDONLY | O_DIRECTORY, 0);
    default:
        return -1;
    }
}

static void arrange_descriptors(const struct frozen *frozen)
{
    const struct frozen_descriptor *all = table(frozen, frozen->descriptors);
    for (long given = FROZEN_QMP; given < FROZEN_GIVEN_END; given++)
        must(CALL_2(dup2, given, ASIDE + given), "a descriptor is missing");
    /* All new ones are made above the places that any of them takes. */
    for (uint64_t i = 0; i < frozen->descriptor_count; i++) {
        long made = make_descriptor(frozen, &all[i]);
        must(made, "a descriptor cannot be made");
        must(CALL_2(dup2, made, ASIDE * 2 + (long)i), "a descriptor cannot be kept");
        if (all[i].kind != FROZEN_IS_GIVEN)
            CALL_1(close, made);
    }
    CALL_3(close_range, FROZEN_QMP, ASIDE - 1, 0);
    for (uint64_t i = 0; i < frozen->descriptor_count; i++) {
        long fd = all[i].number;
        must(CALL_2(dup2, ASIDE * 2 + (long)i, fd), "a descriptor finds no place");
        CALL_3(fcntl, fd, F_SETFL, all[i].flags & O_NONBLOCK);
    }
}

/* ---- threads ------------------------------------------------------------------------------- */

/* As the kernel lays out the frame of a signal. */
#define HAS_XSTATE 1
#define HAS_SEGMENTS 6
#define MAGIC_1 0x46505853u
#define MAGIC_2 0x46505845u
#define WORD_AT 464 /* in an XSAVE area, where software may leave word */
#define SEGMENTS ((0x2bull << 48) | 0x33)

struct xstate_word {
    uint32_t magic, whole_length;
    uint64_t features;
    uint32_t length;
};

/* Of a thread that was looked at from outside the features are where the word is to be. */
static void fill_xstate(const struct frozen_thread *thread, struct frame *frame)
{
    struct xstate_word word = {
        .magic = MAGIC_1,
        .whole_length = (uint32_t)thread->xstate_length + sizeof(uint32_t),
        .length = (uint32_t)thread->xstate_length,
    };
    uint32_t last = MAGIC_2;
    if (thread->xstate_length > sizeof thread->xstate - FROZEN_XSTATE_END)
        fail("its registers are too many");
    memcpy(frame->xstate, thread->xstate, thread->xstate_length);
    if (thread->xstate_length == FROZEN_XSTATE_OLD)
        return;
    memcpy(&word.features, thread->xstate + WORD_AT, sizeof word.features);
    memcpy(frame->xstate + WORD_AT, &word, sizeof word);
    memcpy(frame->xstate + thread->xstate_length, &last, sizeof last);
    frame->context.uc_flags |= HAS_XSTATE;
}

static void fill_frame(const struct frozen_thread *thread, struct frame *frame)
{
    ucontext_t *context = &frame->context;
    context->uc_flags = HAS_SEGMENTS;
    fill_xstate(thread, frame);
    context->uc_stack.ss_flags = SS_DISABLE;
    memcpy(&context->uc_sigmask, &thread->signals, sizeof thread->signals);
    memcpy(context->uc_mcontext.gregs, thread->registers, sizeof thread->registers);
    context->uc_mcontext.gregs[REG_CSGSFS] = (long long)SEGMENTS;
    context->uc_mcontext.fpregs = (void *)frame->xstate;
}

__attribute__((noreturn, used)) static void go_on(const struct frozen_thread *thread,
                                                  struct frame *frame)
{
    CALL_2(set_robust_list, thread->robust_list, thread->robust_length);
    if (thread->rseq)
        CALL_4(rseq, thread->rseq, thread->rseq_length, 0, thread->rseq_signature);
    __asm__ volatile("mov %0, %%rsp\n\t"
                     "mov %1, %%eax\n\t"
                     "syscall"
                     :
                     : "r"(&frame->context), "i"(SYS_rt_sigreturn)
                     : "memory");
    __builtin_unreachable();
}

#define LIKE_A_THREAD                                                                              \
    (CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM)

/* One that only takes a number. */
static long spend_number(void *stack)
{
    long number = SYS_clone;
    register long r10 __asm__("r10") = 0;
    register long r8 __asm__("r8") = 0;
    __asm__ volatile("syscall\n\t"
                     "test %%rax, %%rax\n\t"
                     "jnz 1f\n\t"
                     "mov %[exit], %%eax\n\t"
                     "xor %%edi, %%edi\n\t"
                     "syscall\n"
                     "1:"
                     : "+a"(number)
                     : "D"((long)LIKE_A_THREAD), "S"(stack), "d"(0L), "r"(r10),
                       "r"(r8), [exit] "i"(SYS_exit)
                     : "rcx", "r11", "memory");
    return number;
}

static long start_thread(const struct frozen_thread *thread, struct frame *frame)
{
    long number = SYS_clone;
    long flags = LIKE_A_THREAD | CLONE_SETTLS | CLONE_CHILD_CLEARTID;
    uint64_t number_at = thread->number_at, storage = thread->fs_base;
    register uint64_t r10 __asm__("r10") = number_at;
    register uint64_t r8 __asm__("r8") = storage;
    register const struct frozen_thread *r12 __asm__("r12") = thread;
    register struct frame *r13 __asm__("r13") = frame;
    __asm__ volatile("syscall\n\t"
                     "test %%rax, %%rax\n\t"
                     "jnz 1f\n\t"
                     "mov %%r12, %%rdi\n\t"
                     "mov %%r13, %%rsi\n\t"
                     "call go_on\n"
                     "1:"
                     : "+a"(number)
                     : "D"(flags), "S"(frame->room + sizeof frame->room), "d"(0L), "r"(r10),
                       "r"(r8), "r"(r12), "r"(r13)
                     : "rcx", "r11", "memory");
    return number;
}

/* Threads get the numbers they had: those are taken in order here, where nobody else takes any. */
static void start_threads(const struct frozen *frozen)
{
    static uint8_t stack[256] __attribute__((aligned(64)));
    const struct frozen_thread *threads = table(frozen, frozen->threads);
    long number = 1;
    if (frozen->thread_count > FROZEN_THREADS_MAX || threads[0].number != 1)
        fail("it has other threads");
    for (uint64_t i = 0; i < frozen->thread_count; i++) {
        fill_frame(&threads[i], &frames[i]);
        if (i == 0)
            continue;
        while ((uint64_t)number + 1 < threads[i].number && number < NUMBER_MAX) {
            number = spend_number(stack + sizeof stack);
            must(number, "no threads");
        }
        number = start_thread(&threads[i], &frames[i]);
        if ((uint64_t)number != threads[i].number)
            fail("a thread has another number");
    }
}

/* ---- the end of it ------------------------------------------------------------------------- */

/* What QEMU itself gives up when it has started (-sandbox), and the filter has to allow until
 * then. */
static void give_up_calls(void)
{
    static struct sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 0, 4),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_execve, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_seccomp, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog filter = {.len = sizeof steps / sizeof steps[0], .filter = steps};
    must(CALL_3(seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter), "it cannot be confined");
}

static void ignore_signals(uint64_t ignored)
{
    struct {
        void *handler;
        unsigned long flags;
        void *restorer;
        uint64_t mask;
    } action = {.handler = (void *)1};
    for (int number = 1; number <= 64; number++) {
        if (ignored >> (number - 1) & 1)
            must(CALL_4(rt_sigaction, number, &action, NULL, SIGNAL_SET), "signals");
    }
}

__attribute__((noreturn, used)) static void thaw(const uint64_t *stack)
{
    const struct frozen *frozen = map_tables();
    /* Behind the arguments and the environment the kernel tells about itself. */
    uint64_t count = stack[0], code = 0;
    const uint64_t *at = stack + 1 + count + 1;
    while (*at++)
        ;
    for (; at[0]; at += 2) {
        if (at[0] == AT_SYSINFO_EHDR)
            code = at[1];
    }
    open_files(frozen);
    if (!code != !frozen->clock_code)
        fail("the kernel has other clocks");
    move_clock(frozen, code);
    map_all(frozen);
    const struct frozen_thread *threads = table(frozen, frozen->threads);
    arrange_descriptors(frozen);
    ignore_signals(frozen->ignored);
    CALL_2(prctl, PR_SET_NAME, "qemu-system-x86");
    must(CALL_2(arch_prctl, ARCH_SET_FS, threads[0].fs_base), "thread storage");
    CALL_1(set_tid_address, threads[0].number_at);
    give_up_calls();
    start_threads(frozen);
    CALL_3(write, ASIDE + FROZEN_READY, "", 1);
    CALL_3(close_range, ASIDE, ~0u, 0);
    go_on(&threads[0], &frames[0]);
}

__asm__(".globl _start\n"
        "_start:\n\t"
        "mov %rsp, %rdi\n\t"
        "lea own_stack+16384(%rip), %rsp\n\t"
        "call thaw\n");

#else

/* Machines are frozen on x86-64 only. */
void _start(void);
void _start(void)
{
}

#endif
