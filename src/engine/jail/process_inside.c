#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/keyctl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fdpass.h"
#include "base/loopback.h"
#include "base/signals.h"
#include "engine/jail/filter.h"
#include "engine/jail/process_internal.h"
#include "engine/jail/warm.h"
#include "engine/landlock.h"
#include "engine/mounts.h"

/* Numbers of the descriptors inside. */
enum {
    FD_AGENT = 3,
    FD_GROUPS,
    FD_PROGRAM = FD_GROUPS + JAIL_GROUPS,
    FD_PARENT,
    FD_WARM,
    FD_COUNT = FD_WARM + WARM_ENDS
};

/* With one id alone there is no root to become; then capabilities make up for it. */
static int become_root(const struct own_ids *own, struct error *err)
{
    if (own && !own_ids_are_many(own))
        return 0;
    if (setgroups(0, NULL) < 0 || setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
        return error_errno(err, errno, "cannot change the user");
    return 0;
}

/* The agent's world is closed: exactly these descriptors, whatever else was open. */
static int arrange_descriptors(struct jail_child *child, struct error *err)
{
    int wanted[FD_COUNT] = {open("/dev/null", O_RDWR | O_CLOEXEC), child->jail->stderr_fd,
                            child->jail->stderr_fd, child->jail->agent};
    memcpy(wanted + FD_GROUPS, child->groups, sizeof child->groups);
    wanted[FD_PROGRAM] = child->program;
    wanted[FD_PARENT] = child->parent;
    for (int i = 0; i < WARM_ENDS; i++)
        wanted[FD_WARM + i] = child->jail->warm ? child->jail->warm->agent_ends[i] : -1;
    for (int i = 0; i < FD_COUNT; i++)
        wanted[i] = fcntl(wanted[i], F_DUPFD_CLOEXEC, 512);
    for (int i = 0; i < FD_COUNT; i++) {
        if (wanted[i] >= 0 && dup2(wanted[i], i) < 0)
            return error_errno(err, errno, "cannot arrange descriptors");
        if (wanted[i] < 0)
            close(i);
    }
    close_range(FD_COUNT, ~0U, 0);
    fcntl(FD_PROGRAM, F_SETFD, FD_CLOEXEC);
    fcntl(FD_PARENT, F_SETFD, FD_CLOEXEC);
    child->parent = FD_PARENT;
    return 0;
}

/* What the agent needs to start processes for users and to give the jail its name. */
static int keep_few_capabilities(struct error *err)
{
    static const int kept[] = {CAP_CHOWN,   CAP_DAC_OVERRIDE, CAP_FOWNER,
                               CAP_KILL,    CAP_SETGID,       CAP_SETUID,
                               CAP_SETPCAP, CAP_SYS_RESOURCE, CAP_SYS_ADMIN};
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct sets[2] = {0};
    uint32_t bits = 0;
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++)
        bits |= 1u << kept[i];
    for (int i = 0; i <= CAP_LAST_CAP; i++) {
        if ((i >= 32 || !(bits & 1u << i)) && prctl(PR_CAPBSET_DROP, i) < 0 && errno != EINVAL)
            return error_errno(err, errno, "cannot give up capabilities");
    }
    sets[0].effective = sets[0].permitted = bits;
    sets[0].inheritable = getuid() ? bits : 0;
    if (syscall(SYS_capset, &header, sets) < 0)
        return error_errno(err, errno, "cannot give up capabilities");
    /* Only root keeps them across execve by himself. */
    for (size_t i = 0; getuid() && i < sizeof kept / sizeof kept[0]; i++) {
        if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, kept[i], 0, 0) < 0)
            return error_errno(err, errno, "cannot keep capabilities");
    }
    return 0;
}

static int limit_processes(const struct machine_spec *spec, struct error *err)
{
    rlim_t memory = (rlim_t)spec->memory_mb << 20;
    if (setrlimit(RLIMIT_NPROC, &(struct rlimit){spec->processes, spec->processes}) < 0 ||
        setrlimit(RLIMIT_DATA, &(struct rlimit){memory, memory}) < 0)
        return error_errno(err, errno, "cannot limit the jail's processes");
    return 0;
}

/* Keys of whoever started us stay outside. */
static int set_own_limits(const struct jail_process *jail, struct error *err)
{
    struct rlimit none = {1, 1}; /* 0 would still start the host's program for core dumps */
    if (syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) < 0 && errno != ENOSYS)
        return error_errno(err, errno, "cannot make a keyring");
    if (setrlimit(RLIMIT_CORE, &none) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
        return error_errno(err, errno, "cannot limit the process");
    if (jail->limits_processes && limit_processes(jail->spec, err) < 0)
        return -1;
    return keep_few_capabilities(err);
}

static bool told_to_go_on(const struct jail_child *child, int *fd)
{
    char byte;
    return fdpass_receive(child->parent, &byte, 1, fd) == 1;
}

/* The mounts come from the caller: only it may translate their owners. An ordinary user may not,
 * and makes them here. */
static bool receive_mounts(struct jail_child *child)
{
    if (!told_to_go_on(child, &child->root.image) ||
        (child->jail->spec->disk && !told_to_go_on(child, &child->root.disk)))
        return false;
    for (size_t i = 0; !child->jail->own && i < child->root.volume_count; i++) {
        if (!told_to_go_on(child, &child->volumes[i].tree))
            return false;
    }
    return true;
}

static int refuse_volume(const struct machine_volume *volume, struct error *err)
{
    error_wrap(err, "cannot share folder %s", volume->host_path);
    return error_hint(err, "it must be yours to enter, and nothing may be mounted below it");
}

static int make_own_mounts(struct jail_child *child, struct error *err)
{
    const unsigned quiet = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
    const struct machine_spec *spec = child->jail->spec;
    child->root.image = mount_clone(child->jail->unpacked, quiet | MOUNT_ATTR_RDONLY, err);
    int result = child->root.image < 0 ? -1 : 0;
    for (size_t i = 0; result == 0 && i < spec->volume_count; i++) {
        const struct machine_volume *volume = &spec->volumes[i];
        int tree = mount_clone(volume->host_path,
                               quiet | (volume->read_only ? MOUNT_ATTR_RDONLY : 0), err);
        child->volumes[i].tree = tree;
        if (tree < 0)
            result = refuse_volume(volume, err);
    }
    return result;
}

/* Everything that is known by a name of the host, while those names lead anywhere. */
static int look_around(struct jail_child *child, struct jail_sights *sights, struct error *err)
{
    for (int i = 0; i < JAIL_GROUPS; i++)
        child->groups[i] = cgroup_show(child->jail->cgroup, (enum cgroup_view)i);
    int result = child->jail->own ? make_own_mounts(child, err) : 0;
    return result < 0 ? result : root_look(&child->root, sights, err);
}

static int move_in(struct jail_child *child, struct error *err)
{
    struct jail_sights sights;
    int result = look_around(child, &sights, err);
    if (result == 0)
        result = become_root(child->jail->own, err);
    if (result == 0)
        result = root_enter(&child->root, &sights, err);
    if (result == 0)
        result = arrange_descriptors(child, err);
    return result;
}

/* In its control group by now, which becomes the topmost it can see. */
static int shut_in(const struct jail_child *child, struct error *err)
{
    if (unshare(CLONE_NEWCGROUP) < 0)
        return error_errno(err, errno, "cannot make a namespace for control groups");
    loopback_bring_up();
    int result = set_own_limits(child->jail, err);
    if (result == 0)
        result = landlock_shut_in(err);
    return result < 0 ? result : filter_install(child->filter, err);
}

static _Noreturn void execute_agent(const struct jail_child *child, struct error *err)
{
    const struct machine_spec *spec = child->jail->spec;
    char numbers[2 + JAIL_GROUPS][16];
    char *no_env[] = {NULL};
    snprintf(numbers[0], sizeof numbers[0], "%d", FD_AGENT);
    snprintf(numbers[1 + JAIL_GROUPS], sizeof numbers[0], "%d", FD_WARM);
    for (int i = 0; i < JAIL_GROUPS; i++)
        snprintf(numbers[1 + i], sizeof numbers[0], "%d",
                 child->groups[i] >= 0 ? FD_GROUPS + i : -1);
    const char *argv[] = {"msb-agent", "--jail",   numbers[0], numbers[1], numbers[2],
                          numbers[3],  numbers[4], NULL,       NULL};
    if (child->jail->warm)
        argv[7] = warm_user(spec);
    else
        argv[6] = NULL;
    execveat(FD_PROGRAM, "", (char **)(uintptr_t)argv,
             child->jail->warm && spec->env ? spec->env : no_env, AT_EMPTY_PATH);
    error_errno(err, errno, "cannot execute the agent");
    fdpass_send(child->parent, err, sizeof *err, -1);
    _exit(1);
}

_Noreturn void jail_child_main(struct jail_child *child)
{
    struct error err;
    setsid();
    signals_reset();
    /* Nothing comes when the caller is dead. */
    close(child->caller);
    if (!receive_mounts(child))
        _exit(1);
    child->root.keeper = child->parent;
    int result = move_in(child, &err);
    if (result == 0 && !told_to_go_on(child, &child->filter))
        _exit(1);
    if (result == 0)
        result = shut_in(child, &err);
    if (result == 0)
        execute_agent(child, &err);
    fdpass_send(child->parent, &err, sizeof err, -1);
    _exit(1);
}
