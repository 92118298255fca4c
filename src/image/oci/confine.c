#include "image/oci/confine.h"

#include <errno.h>
#include <linux/capability.h>
#include <seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* For owners, modes and attributes of other users' files; nothing else. */
static const unsigned kept[] = {CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_FOWNER, CAP_FSETID, CAP_SETFCAP};

static int drop_capabilities(struct error *err)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {0};
    uint64_t mask = 0;
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++)
        mask |= (uint64_t)1 << kept[i];
    for (unsigned i = 0; i < 64; i++) {
        if (!(mask >> i & 1))
            prctl(PR_CAPBSET_DROP, i, 0, 0, 0);
    }
    data[0].effective = data[0].permitted = (uint32_t)mask;
    data[1].effective = data[1].permitted = (uint32_t)(mask >> 32);
    if (syscall(SYS_capset, &header, data) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return error_errno(err, errno, "cannot give up rights");
    return 0;
}

/* Libraries may load others by name, and the names lead into the hostile folder: so no memory
 * becomes code any more. */
static int add_rules(scmp_filter_ctx filter)
{
    static const int refused[] = {
        SCMP_SYS(execve),      SCMP_SYS(execveat),        SCMP_SYS(fork),
        SCMP_SYS(vfork),       SCMP_SYS(clone),           SCMP_SYS(clone3),
        SCMP_SYS(socket),      SCMP_SYS(socketpair),      SCMP_SYS(ptrace),
        SCMP_SYS(mount),       SCMP_SYS(umount2),         SCMP_SYS(pivot_root),
        SCMP_SYS(chroot),      SCMP_SYS(unshare),         SCMP_SYS(setns),
        SCMP_SYS(bpf),         SCMP_SYS(keyctl),          SCMP_SYS(add_key),
        SCMP_SYS(request_key), SCMP_SYS(mknod),           SCMP_SYS(io_uring_setup),
        SCMP_SYS(userfaultfd), SCMP_SYS(perf_event_open), SCMP_SYS(process_vm_writev),
        SCMP_SYS(kill),        SCMP_SYS(tkill),           SCMP_SYS(ioctl),
        SCMP_SYS(init_module), SCMP_SYS(finit_module),    SCMP_SYS(open_by_handle_at),
    };
    int result = 0;
    for (size_t i = 0; result == 0 && i < sizeof refused / sizeof refused[0]; i++)
        result = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), refused[i], 0);
    static const int mapping[] = {SCMP_SYS(mmap), SCMP_SYS(mprotect), SCMP_SYS(pkey_mprotect)};
    for (size_t i = 0; result == 0 && i < sizeof mapping / sizeof mapping[0]; i++)
        result = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), mapping[i], 1,
                                  SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, PROT_EXEC));
    return result;
}

static int refuse_calls(struct error *err)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
    int result = filter ? add_rules(filter) : -ENOMEM;
    if (result == 0)
        result = seccomp_load(filter);
    if (filter)
        seccomp_release(filter);
    return result == 0 ? 0 : error_errno(err, -result, "cannot set the list of system calls");
}

int confine_to(const char *folder, struct error *err)
{
    if (chroot(folder) < 0 || chdir("/") < 0)
        return error_errno(err, errno, "cannot make %s the whole world", folder);
    int result = drop_capabilities(err);
    return result < 0 ? result : refuse_calls(err);
}
