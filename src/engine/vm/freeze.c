#include "engine/vm/freeze.h"

#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "engine/vm/frozen.h"

static int read_boot(char *boot, size_t size, struct error *err)
{
    cleanup_buf struct buf text = {0};
    int result = file_read("/proc/sys/kernel/random/boot_id", size - 1, &text, err);
    if (result == 0)
        snprintf(boot, size, "%.36s", buf_text(&text));
    return result;
}

#ifdef __x86_64__

/* Pages between two that are written down are written too when there are so few. */
#define GAP 16
#define PIECE (256 * FROZEN_PAGE)
/* Room for the main thread's stack to grow. */
#define STACK_ROOM (1u << 20)
#define THREADS_MAX 72

/* Of an entry of pagemap, see pages.c. */
#define PRESENT (1ull << 63)
#define SWAPPED (1ull << 62)
#define OF_FILE (1ull << 61)

struct freezing {
    pid_t process;
    const struct freeze_files *files;
    struct stat memory;
    pid_t threads[THREADS_MAX];
    size_t thread_count;
    struct frozen head;
    struct buf file_table, mappings, descriptors, thread_table, names;
    uint64_t contents; /* length of the pages written so far */
    uint64_t below;    /* where the mapping before ended */
    int to, mem, pagemap;
    uint8_t *piece;
};

static int open_of(const struct freezing *f, const char *name, int flags, struct error *err)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)f->process, name);
    int fd = open(path, flags | O_CLOEXEC);
    return fd >= 0 ? fd : error_errno(err, errno, "cannot open %s", path);
}

static int read_of(const struct freezing *f, const char *name, struct buf *out, struct error *err)
{
    cleanup_free char *path = xasprintf("/proc/%d/%s", (int)f->process, name);
    return file_read(path, 1u << 20, out, err);
}

static uint64_t add_name(struct freezing *f, const char *name)
{
    uint64_t at = buf_length(&f->names);
    buf_append(&f->names, name, strlen(name) + 1);
    return at;
}

/* ---- threads ------------------------------------------------------------------------------- */

static int by_number(const void *a, const void *b)
{
    pid_t first = *(const pid_t *)a, second = *(const pid_t *)b;
    return first < second ? -1 : first > second;
}

static int hold_thread(struct freezing *f, pid_t thread, struct error *err)
{
    int status;
    if (ptrace(PTRACE_SEIZE, thread, NULL, NULL) < 0)
        return error_errno(err, errno, "cannot hold a thread");
    f->threads[f->thread_count++] = thread;
    if (ptrace(PTRACE_INTERRUPT, thread, NULL, NULL) < 0 ||
        waitpid(thread, &status, __WALL) != thread || !WIFSTOPPED(status))
        return error_errno(err, errno, "cannot stop a thread");
    return 0;
}

static int hold_threads(struct freezing *f, struct error *err)
{
    cleanup_free char *path = xasprintf("/proc/%d/task", (int)f->process);
    DIR *tasks = opendir(path);
    struct dirent *entry;
    int result = tasks ? 0 : error_errno(err, errno, "cannot open %s", path);
    while (result == 0 && (entry = readdir(tasks))) {
        pid_t thread = (pid_t)strtol(entry->d_name, NULL, 10);
        if (thread > 0 && f->thread_count == THREADS_MAX)
            result = error_set(err, ERROR_LIMIT, "too many threads");
        else if (thread > 0)
            result = hold_thread(f, thread, err);
    }
    if (tasks)
        closedir(tasks);
    qsort(f->threads, f->thread_count, sizeof f->threads[0], by_number);
    return result;
}

static void let_go(const struct freezing *f)
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
    if (read_of(f, name, &status, err) < 0)
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

static int describe_threads(struct freezing *f, struct error *err)
{
    int result = 0;
    for (size_t i = 0; result == 0 && i < f->thread_count; i++) {
        struct frozen_thread *thread = xcalloc(1, sizeof *thread);
        result = describe_thread(f, f->threads[i], thread, err);
        buf_append(&f->thread_table, thread, sizeof *thread);
        free(thread);
    }
    f->head.thread_count = f->thread_count;
    return result;
}

static int describe_signals(struct freezing *f, struct error *err)
{
    cleanup_buf struct buf status = {0};
    if (read_of(f, "status", &status, err) < 0)
        return -1;
    const char *line = strstr(buf_text(&status), "\nSigIgn:");
    f->head.ignored = line ? strtoull(line + strlen("\nSigIgn:"), NULL, 16) : 0;
    return line ? 0 : error_set(err, ERROR_IO, "cannot read signals");
}

/* ---- memory -------------------------------------------------------------------------------- */

struct area {
    uint64_t begin, end, offset, inode;
    unsigned major, minor;
    char rights[8];
    char name[4096];
};

static void add_mapping(struct freezing *f, const struct area *area, uint64_t begin, uint64_t end,
                        int32_t source, uint64_t offset)
{
    const struct frozen_mapping mapping = {
        .address = begin,
        .length = end - begin,
        .offset = offset,
        .source = source,
        .protection = (area->rights[0] == 'r' ? PROT_READ : 0u) |
                      (area->rights[1] == 'w' ? PROT_WRITE : 0u) |
                      (area->rights[2] == 'x' ? PROT_EXEC : 0u),
    };
    buf_append(&f->mappings, &mapping, sizeof mapping);
    f->head.mapping_count++;
}

/* A file that has this name for us too. Others, of its own root, are written down whole. */
static int32_t find_file(struct freezing *f, const struct area *area)
{
    struct stat status;
    if (stat(area->name, &status) < 0 || status.st_ino != area->inode)
        return FROZEN_OF_NOTHING;
    const struct frozen_file *files = (const struct frozen_file *)buf_data(&f->file_table);
    for (uint64_t i = 0; i < f->head.file_count; i++) {
        if (files[i].inode == area->inode && files[i].device == status.st_dev)
            return (int32_t)i;
    }
    const struct frozen_file file = {.device = status.st_dev,
                                     .inode = status.st_ino,
                                     .size = (uint64_t)status.st_size,
                                     .changed_s = (uint64_t)status.st_mtim.tv_sec,
                                     .changed_ns = (uint64_t)status.st_mtim.tv_nsec,
                                     .name = add_name(f, area->name)};
    buf_append(&f->file_table, &file, sizeof file);
    return (int32_t)f->head.file_count++;
}

static bool is_zero(const uint8_t *bytes)
{
    return bytes[0] == 0 && memcmp(bytes, bytes + 1, FROZEN_PAGE - 1) == 0;
}

/* The pages from begin to end, behind those that are written already. */
static int write_run(struct freezing *f, const struct area *area, uint64_t begin, uint64_t end,
                     struct error *err)
{
    uint64_t offset = f->contents;
    for (uint64_t at = begin; at < end;) {
        size_t part = end - at < PIECE ? (size_t)(end - at) : PIECE;
        if (pread(f->mem, f->piece, part, (off_t)at) != (ssize_t)part ||
            pwrite(f->to, f->piece, part, (off_t)(f->contents)) != (ssize_t)part)
            return error_errno(err, errno, "cannot write down memory");
        at += part;
        f->contents += part;
    }
    add_mapping(f, area, begin, end, FROZEN_OF_SELF, offset);
    return 0;
}

/* Whether what is mapped there is not what it would be in a new mapping. */
static int is_changed(const struct freezing *f, uint64_t at, uint64_t entry, int32_t source,
                      bool whole, struct error *err)
{
    bool own = (entry & SWAPPED) || (entry & (PRESENT | OF_FILE)) == PRESENT;
    if (!own && !whole)
        return 0;
    if (source != FROZEN_OF_NOTHING)
        return own;
    if (pread(f->mem, f->piece, FROZEN_PAGE, (off_t)at) != FROZEN_PAGE)
        return error_errno(err, errno, "cannot read memory");
    return !is_zero(f->piece);
}

static int write_changed(struct freezing *f, const struct area *area, int32_t source, bool whole,
                         struct error *err)
{
    uint64_t entries[512];
    uint64_t begin = 0, end = 0; /* of the run */
    for (uint64_t at = area->begin; at < area->end;) {
        uint64_t wanted = (area->end - at) / FROZEN_PAGE;
        wanted = wanted < 512 ? wanted : 512;
        if (pread(f->pagemap, entries, wanted * 8, (off_t)(at / FROZEN_PAGE * 8)) !=
            (ssize_t)(wanted * 8))
            return error_errno(err, errno, "cannot read which pages are its own");
        for (uint64_t i = 0; i < wanted; i++, at += FROZEN_PAGE) {
            int changed = is_changed(f, at, entries[i], source, whole, err);
            if (changed < 0)
                return changed;
            if (!changed)
                continue;
            if (begin && at - end > GAP * FROZEN_PAGE) {
                if (write_run(f, area, begin, end, err) < 0)
                    return -1;
                begin = 0;
            }
            begin = begin ? begin : at;
            end = at + FROZEN_PAGE;
        }
    }
    return begin ? write_run(f, area, begin, end, err) : 0;
}

static int describe_clock(struct freezing *f, const struct area *area, struct error *err)
{
    if (f->head.clock_part_count == FROZEN_CLOCK_PARTS)
        return error_set(err, ERROR_MISSING, "this kernel's clocks are not known");
    f->head.clock_parts[f->head.clock_part_count].address = area->begin;
    f->head.clock_parts[f->head.clock_part_count++].length = area->end - area->begin;
    if (strcmp(area->name, "[vdso]") == 0)
        f->head.clock_code = area->begin;
    return 0;
}

static int describe_area(struct freezing *f, const struct area *area, struct error *err)
{
    uint64_t below = f->below;
    f->below = area->end;
    if (strcmp(area->name, "[vsyscall]") == 0)
        return 0;
    if (strncmp(area->name, "[v", 2) == 0)
        return describe_clock(f, area, err);
    if (area->rights[3] != 'p')
        return error_set(err, ERROR_MISSING, "it shares memory: %s", area->name);
    bool is_memory =
        area->inode == f->memory.st_ino && makedev(area->major, area->minor) == f->memory.st_dev;
    int32_t source = is_memory     ? FROZEN_OF_MEMORY
                     : area->inode ? find_file(f, area)
                                   : FROZEN_OF_NOTHING;
    uint64_t begin = area->begin;
    if (strcmp(area->name, "[stack]") == 0 && begin - below > 2 * STACK_ROOM)
        begin -= STACK_ROOM;
    add_mapping(f, area, begin, area->end, source, source == FROZEN_OF_NOTHING ? 0 : area->offset);
    if (area->rights[0] != 'r')
        return 0;
    bool whole = area->inode && source == FROZEN_OF_NOTHING;
    return write_changed(f, area, source, whole, err);
}

static int describe_memory(struct freezing *f, struct error *err)
{
    cleanup_buf struct buf maps = {0};
    int result = read_of(f, "maps", &maps, err);
    char *rest = result == 0 ? (char *)(uintptr_t)buf_text(&maps) : NULL;
    for (char *line; result == 0 && (line = strsep(&rest, "\n")) && *line;) {
        struct area area = {0};
        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s %" SCNx64 " %x:%x %" SCNu64 " %4095[^\n]",
                   &area.begin, &area.end, area.rights, &area.offset, &area.major, &area.minor,
                   &area.inode, area.name) < 7)
            return error_set(err, ERROR_IO, "cannot read its mappings");
        result = describe_area(f, &area, err);
    }
    return result;
}

/* ---- descriptors --------------------------------------------------------------------------- */

static uint64_t read_number(const char *text, const char *label, int base)
{
    const char *at = strstr(text, label);
    return at ? strtoull(at + strlen(label), NULL, base) : 0;
}

static bool is_same(const struct stat *status, int fd)
{
    struct stat ours;
    return fd >= 0 && fstat(fd, &ours) == 0 && ours.st_ino == status->st_ino &&
           ours.st_dev == status->st_dev;
}

/* One of those that it was given, or 0. */
static int find_given(const struct freezing *f, int number, const char *path)
{
    struct stat status;
    if (number == FROZEN_QMP || number == FROZEN_AGENT)
        return number;
    if (stat(path, &status) < 0 || !S_ISREG(status.st_mode))
        return 0;
    return is_same(&status, f->files->image)     ? FROZEN_IMAGE
           : is_same(&status, f->files->disk)    ? FROZEN_DISK
           : is_same(&status, f->files->overlay) ? FROZEN_OVERLAY
           : is_same(&status, f->files->kept)    ? FROZEN_KEPT
           : is_same(&status, f->files->memory)  ? FROZEN_MEMORY
                                                 : 0;
}

static int describe_descriptor(struct freezing *f, int number, struct error *err)
{
    char target[256] = "", name[32];
    cleanup_free char *path = xasprintf("/proc/%d/fd/%d", (int)f->process, number);
    cleanup_buf struct buf about = {0};
    snprintf(name, sizeof name, "fdinfo/%d", number);
    if (readlink(path, target, sizeof target - 1) < 0)
        return error_errno(err, errno, "cannot look at a descriptor");
    if (read_of(f, name, &about, err) < 0)
        return -1;
    const char *text = buf_text(&about);
    struct frozen_descriptor one = {.number = number, .flags = read_number(text, "flags:\t", 8)};
    struct stat status;
    int given = find_given(f, number, path);
    if (given) {
        one.kind = FROZEN_IS_GIVEN;
        one.value = (uint64_t)given;
    } else if (strcmp(target, "anon_inode:[eventfd]") == 0) {
        one.kind = FROZEN_IS_EVENT;
        one.value = read_number(text, "eventfd-count:", 16);
    } else if (strcmp(target, "anon_inode:[eventpoll]") == 0 && !strstr(text, "tfd:")) {
        one.kind = FROZEN_IS_EPOLL;
    } else if (strcmp(target, "anon_inode:[signalfd]") == 0) {
        one.kind = FROZEN_IS_SIGNAL;
        one.value = read_number(text, "sigmask:", 16);
    } else if (target[0] == '/' && stat(path, &status) == 0 && S_ISDIR(status.st_mode)) {
        one.kind = FROZEN_IS_FOLDER;
        one.value = add_name(f, target);
    } else {
        return error_set(err, ERROR_MISSING, "descriptor %d is %s", number, target);
    }
    buf_append(&f->descriptors, &one, sizeof one);
    f->head.descriptor_count++;
    return 0;
}

static int describe_descriptors(struct freezing *f, struct error *err)
{
    cleanup_free char *path = xasprintf("/proc/%d/fd", (int)f->process);
    DIR *all = opendir(path);
    struct dirent *entry;
    int result = all ? 0 : error_errno(err, errno, "cannot open %s", path);
    while (result == 0 && (entry = readdir(all))) {
        int number = (int)strtol(entry->d_name, NULL, 10);
        if (number > STDERR_FILENO)
            result = describe_descriptor(f, number, err);
    }
    if (all)
        closedir(all);
    return result;
}

/* ---- all of it ----------------------------------------------------------------------------- */

/* The tables come last in the file's making and first in the file: the offsets of the pages, known
 * by then, move up by their length. */
static void put_table(struct buf *tables, const struct buf *table, uint64_t *offset)
{
    while (buf_length(tables) % 64)
        buf_append(tables, "", 1);
    *offset = buf_length(tables);
    buf_append(tables, buf_data(table), buf_length(table));
}

#define TABLES_ROOM (4u << 20)

static int write_tables(struct freezing *f, struct error *err)
{
    cleanup_buf struct buf tables = {0};
    buf_append(&tables, &f->head, sizeof f->head);
    put_table(&tables, &f->file_table, &f->head.files);
    put_table(&tables, &f->mappings, &f->head.mappings);
    put_table(&tables, &f->descriptors, &f->head.descriptors);
    put_table(&tables, &f->thread_table, &f->head.threads);
    put_table(&tables, &f->names, &f->head.names);
    f->head.magic = FROZEN_MAGIC;
    f->head.tables_length = buf_length(&tables);
    memcpy(buf_data(&tables), &f->head, sizeof f->head);
    if (buf_length(&tables) > TABLES_ROOM)
        return error_set(err, ERROR_LIMIT, "its memory is in too many parts");
    return pwrite(f->to, buf_data(&tables), buf_length(&tables), 0) == (ssize_t)buf_length(&tables)
               ? 0
               : error_errno(err, errno, "cannot write down a process");
}

static int describe(struct freezing *f, struct error *err)
{
    int result = describe_threads(f, err);
    if (result == 0)
        result = describe_signals(f, err);
    if (result == 0)
        result = describe_memory(f, err);
    if (result == 0)
        result = describe_descriptors(f, err);
    if (result == 0)
        result = read_boot(f->head.boot, sizeof f->head.boot, err);
    return result < 0 ? result : write_tables(f, err);
}

int freeze(pid_t process, const struct freeze_files *files, int to, struct error *err)
{
    struct freezing *f = xcalloc(1, sizeof *f);
    *f = (struct freezing){.process = process, .files = files, .to = to, .contents = TABLES_ROOM};
    f->piece = xmalloc(PIECE);
    f->mem = open_of(f, "mem", O_RDONLY, err);
    f->pagemap = f->mem < 0 ? -1 : open_of(f, "pagemap", O_RDONLY, err);
    int result = f->pagemap < 0 ? -1 : 0;
    if (result == 0 && fstat(files->memory, &f->memory) < 0)
        result = error_errno(err, errno, "cannot look at the memory of a machine");
    if (result == 0)
        result = hold_threads(f, err);
    if (result == 0)
        result = describe(f, err);
    let_go(f);
    fd_close(f->mem);
    fd_close(f->pagemap);
    struct buf *tables[] = {&f->file_table, &f->mappings, &f->descriptors, &f->thread_table,
                            &f->names};
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
        buf_free(tables[i]);
    free(f->piece);
    free(f);
    return result;
}

static bool is_unchanged(const struct frozen_file *file, const char *name)
{
    struct stat status;
    return stat(name, &status) == 0 && status.st_ino == file->inode &&
           (uint64_t)status.st_size == file->size &&
           (uint64_t)status.st_mtim.tv_sec == file->changed_s &&
           (uint64_t)status.st_mtim.tv_nsec == file->changed_ns;
}

static bool has_its_libraries(const struct frozen *head, int file)
{
    const uint8_t *tables = mmap(NULL, head->tables_length, PROT_READ, MAP_SHARED, file, 0);
    if (tables == MAP_FAILED)
        return false;
    const struct frozen_file *files = (const struct frozen_file *)(tables + head->files);
    bool all = true;
    for (uint64_t i = 0; all && i < head->file_count; i++)
        all = is_unchanged(&files[i], (const char *)tables + head->names + files[i].name);
    munmap((void *)(uintptr_t)tables, head->tables_length);
    return all;
}

enum frozen_state frozen_look(int file)
{
    struct frozen head;
    char boot[sizeof head.boot];
    struct error ignored;
    if (pread(file, &head, sizeof head, 0) != sizeof head ||
        read_boot(boot, sizeof boot, &ignored) < 0 || strcmp(boot, head.boot) != 0)
        return FROZEN_OUTDATED;
    if (head.magic == FROZEN_NOT)
        return FROZEN_REFUSED;
    return head.magic == FROZEN_MAGIC && has_its_libraries(&head, file) ? FROZEN_USABLE
                                                                        : FROZEN_OUTDATED;
}

#else

int freeze(pid_t process, const struct freeze_files *files, int to, struct error *err)
{
    (void)process, (void)files, (void)to;
    return error_set(err, ERROR_MISSING, "machines are frozen on x86-64 only");
}

enum frozen_state frozen_look(int file)
{
    (void)file;
    return FROZEN_REFUSED;
}

#endif

int frozen_refuse(int to, struct error *err)
{
    struct frozen head = {.magic = FROZEN_NOT};
    int result = read_boot(head.boot, sizeof head.boot, err);
    if (result < 0 || pwrite(to, &head, sizeof head, 0) == sizeof head)
        return result;
    return error_errno(err, errno, "cannot note that a machine cannot be frozen");
}
