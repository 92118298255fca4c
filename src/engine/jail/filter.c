#include "engine/jail/filter.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/mem.h"
#include "engine/jail/filter_internal.h"

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
    bool good = fd >= 0 && lists && refusals && filter_add_calls(lists, is_zygote) == 0 &&
                filter_refuse_arguments(refusals, guards_modes) == 0 &&
                write_both(fd, refusals, lists);
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
    int result = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(setns), 0);
    return guards_modes ? result | filter_refuse_modes(filter) : result;
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
