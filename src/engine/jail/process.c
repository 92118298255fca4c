#include "engine/jail/process.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/keyctl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fdpass.h"
#include "base/file.h"
#include "base/loopback.h"
#include "base/mem.h"
#include "base/signals.h"
#include "base/wait.h"
#include "engine/agent_program.h"
#include "engine/ids.h"
#include "engine/jail/filter.h"
#include "engine/jail/image_mount.h"
#include "engine/jail/landlock.h"
#include "engine/jail/root.h"
#include "engine/jail/warm.h"
#include "engine/mounts.h"

#define START_TIMEOUT_MS 10000
/* …when its disk has to be filled first. */
#define FILL_TIMEOUT_MS 600000
#define VOLUMES_MAX 64
/* Descriptors of the agent, which sets the limit of what it starts itself. */
#define FILES_MIN 65536
#define GROUPS 3
/* Numbers of the descriptors inside. */
enum {
    FD_AGENT = 3,
    FD_GROUPS,
    FD_PROGRAM = FD_GROUPS + GROUPS,
    FD_PARENT,
    FD_WARM,
    FD_COUNT = FD_WARM + WARM_ENDS
};

struct child {
    const struct jail_process *jail;
    struct jail_root root;
    struct jail_volume volumes[VOLUMES_MAX];
    bool guards_modes;
    int program;        /* the agent */
    int groups[GROUPS]; /* by cgroup_view; -1 where there is none */
    int filter;
    int parent; /* our end of the conversation with the caller */
    int doors[CGROUP_FOLDERS];
};

/* ---- inside the new process ---------------------------------------------------------------- */

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
static int arrange_descriptors(struct child *child, struct error *err)
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

static bool told_to_go_on(const struct child *child, int *fd)
{
    char byte;
    return fdpass_receive(child->parent, &byte, 1, fd) == 1;
}

/* The mounts come from the caller: only it may translate their owners. An ordinary user may not,
 * and makes them here. */
static bool receive_mounts(struct child *child)
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

static int make_own_mounts(struct child *child, struct error *err)
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
static int look_around(struct child *child, struct jail_sights *sights, struct error *err)
{
    for (int i = 0; i < GROUPS; i++)
        child->groups[i] = cgroup_show(child->jail->cgroup, (enum cgroup_view)i);
    int result = child->jail->own ? make_own_mounts(child, err) : 0;
    return result < 0 ? result : root_look(&child->root, sights, err);
}

static int move_in(struct child *child, struct error *err)
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
static int shut_in(const struct child *child, struct error *err)
{
    if (unshare(CLONE_NEWCGROUP) < 0)
        return error_errno(err, errno, "cannot make a namespace for control groups");
    loopback_bring_up();
    int result = set_own_limits(child->jail, err);
    if (result == 0)
        result = landlock_shut_in(err);
    return result < 0 ? result : filter_install(child->filter, err);
}

static _Noreturn void execute_agent(const struct child *child, struct error *err)
{
    const struct machine_spec *spec = child->jail->spec;
    char numbers[2 + GROUPS][16];
    char *no_env[] = {NULL};
    snprintf(numbers[0], sizeof numbers[0], "%d", FD_AGENT);
    snprintf(numbers[1 + GROUPS], sizeof numbers[0], "%d", FD_WARM);
    for (int i = 0; i < GROUPS; i++)
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

static _Noreturn void child_main(struct child *child)
{
    struct error err;
    setsid();
    signals_reset();
    /* Nothing comes when the caller is dead. */
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

/* ---- outside ------------------------------------------------------------------------------- */

static int spawn(struct child *child, pid_t *process, int *pidfd, struct error *err)
{
    bool owned = child->jail->warm && warm_act_as_owner(child->jail->warm);
    *process = cgroup_clone(child->jail->cgroup, child->doors, CLONE_NEWTIME, pidfd);
    if (*process == 0)
        child_main(child);
    int reason = errno;
    if (owned)
        warm_act_as_root();
    if (*process > 0)
        return 0;
    error_errno(err, reason, "cannot make namespaces for the jail");
    return error_hint(err,
                      "user namespaces must be allowed: sysctl user.max_user_namespaces=10000");
}

static int map_ids(const struct jail_process *jail, pid_t process, struct error *err)
{
    char map[64];
    if (jail->own)
        return own_ids_map(jail->own, process, err);
    snprintf(map, sizeof map, "0 %u %u\n", jail->first_user, JAIL_USERS);
    int result = ids_write_map(process, "uid_map", map, err);
    return result < 0 ? result : ids_write_map(process, "gid_map", map, err);
}

/* A mount whose owners are shifted to the jail's ids. Takes the descriptor, and returns one. */
static int shift(int mounted, pid_t process, struct error *err)
{
    char space_path[64];
    cleanup_fd int tree = mounted;
    if (tree < 0)
        return tree;
    snprintf(space_path, sizeof space_path, "/proc/%d/ns/user", (int)process);
    cleanup_fd int space = open(space_path, O_RDONLY | O_CLOEXEC);
    if (space < 0)
        return error_errno(err, errno, "cannot open %s", space_path);
    struct mount_attr attributes = {.attr_set = MOUNT_ATTR_IDMAP, .userns_fd = (unsigned)space};
    if (mount_setattr(tree, "", AT_EMPTY_PATH, &attributes, sizeof attributes) < 0)
        return error_errno(err, errno, "cannot shift the owners of the image's files");
    return steal_fd(&tree);
}

static int hand_over(int socket, int fd, struct error *err)
{
    if (fdpass_send(socket, "", 1, fd) < 0)
        return error_errno(err, errno, "the jail's process ended early");
    return 0;
}

uid_t jail_user(const struct machine_spec *spec)
{
    if (!spec->user || strcmp(spec->user, "root") == 0)
        return 0;
    unsigned long number = strtoul(spec->user, NULL, 10);
    return number > 0 && number < JAIL_USERS ? (uid_t)number : JAIL_FIRST_USER;
}

static int hand_over_mounts(const struct child *child, int socket, pid_t process, struct error *err)
{
    const struct jail_process *jail = child->jail;
    const struct machine_spec *spec = jail->spec;
    if (jail->own)
        return hand_over(socket, -1, err);
    cleanup_fd int image = shift(image_mount(spec->image_path, err), process, err);
    int result = image < 0 ? image : hand_over(socket, image, err);
    if (result == 0 && spec->disk) {
        cleanup_fd int disk = shift(disk_mount(spec->disk, err), process, err);
        result = disk < 0 ? disk : hand_over(socket, disk, err);
    }
    uid_t owner = jail->first_user + jail_user(spec);
    for (size_t i = 0; result == 0 && i < spec->volume_count; i++) {
        cleanup_fd int tree = mount_volume(&spec->volumes[i], owner, err);
        result = tree < 0 ? tree : hand_over(socket, tree, err);
    }
    return result;
}

/* The disk first. Nothing more is heard when it has executed the agent; otherwise, why it could
 * not. */
static int hear_out(int socket, int timeout_ms, int *disk, struct error *err)
{
    struct error said;
    uint64_t deadline = clock_monotonic_ms() + (uint64_t)timeout_ms;
    for (;;) {
        int fd;
        int ready = wait_readable(&socket, 1, deadline, "the jail", err);
        if (ready < 0)
            return ready;
        ssize_t got = fdpass_receive(socket, &said, sizeof said, &fd);
        if (fd >= 0) {
            fd_close(*disk);
            *disk = fd;
        } else if (got == sizeof said) {
            *err = said;
            return -1;
        } else {
            return 0;
        }
    }
}

/* The filter is made while the child builds its root. */
static int see_through(const struct child *child, int socket, pid_t process, int pidfd, int *disk,
                       struct error *err)
{
    const struct jail_process *jail = child->jail;
    rlim_t files = jail->spec->open_files > FILES_MIN ? jail->spec->open_files : FILES_MIN;
    int result = map_ids(jail, process, err);
    if (result == 0)
        result = hand_over_mounts(child, socket, process, err);
    if (result < 0)
        return result;
    prlimit(process, RLIMIT_NOFILE, &(struct rlimit){files, files}, NULL);
    if (jail->warm)
        prlimit(jail->warm->process, RLIMIT_NOFILE, &(struct rlimit){files, files}, NULL);
    if (!jail->cgroup->limits_at_birth && !cgroup_add(jail->cgroup, process))
        return error_set(err, ERROR_IO, "the jail cannot be put into its control group");
    if (jail->warm && !warm_seat(jail->warm, child->doors))
        warm_let_go(jail->warm);
    if (!jail->own)
        cgroup_delegate(jail->cgroup, jail->first_user);
    cleanup_fd int filter = filter_make(child->guards_modes, err);
    if (filter < 0)
        return filter;
    fdpass_send(socket, "", 1, filter); /* if nobody hears, there is a reason to be heard */
    result = hear_out(socket, jail->archive >= 0 ? FILL_TIMEOUT_MS : START_TIMEOUT_MS, disk, err);
    if (result == 0 && jail->warm)
        warm_admit(jail->warm, pidfd, child->guards_modes);
    return result;
}

static int describe_volumes(struct child *child, struct error *err)
{
    const struct machine_spec *spec = child->jail->spec;
    if (spec->volume_count > VOLUMES_MAX)
        return error_set(err, ERROR_LIMIT, "at most %d folders can be shared", VOLUMES_MAX);
    for (size_t i = 0; i < spec->volume_count; i++) {
        child->volumes[i] = (struct jail_volume){.tree = -1, .path = spec->volumes[i].guest_path};
        child->guards_modes |= !spec->volumes[i].read_only;
    }
    child->root.volumes = child->volumes;
    child->root.volume_count = spec->volume_count;
    return 0;
}

int jail_process_start(const struct jail_process *jail, pid_t *process, int *pidfd, int *disk,
                       struct error *err)
{
    const struct machine_spec *spec = jail->spec;
    int sockets[2];
    *process = -1;
    *pidfd = *disk = -1;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0)
        return error_errno(err, errno, "cannot make a socket pair");
    cleanup_fd int ours = sockets[0];
    cleanup_fd int program = agent_program_seal(err);
    struct child child = {.jail = jail,
                          .root = {.place = jail->place,
                                   .image = -1,
                                   .disk = -1,
                                   .memory_mb = spec->memory_mb,
                                   .disk_mb = spec->disk_mb,
                                   .files = spec->files,
                                   .archive = jail->archive,
                                   .keeper = -1,
                                   .has_groups = !jail->own || own_ids_are_many(jail->own)},
                          .program = program,
                          .parent = sockets[1]};
    int result = cgroup_open_doors(jail->cgroup, child.doors, err);
    if (result == 0)
        result = program < 0 ? program : describe_volumes(&child, err);
    if (result == 0)
        result = spawn(&child, process, pidfd, err);
    fd_close(sockets[1]);
    if (result == 0)
        result = see_through(&child, ours, *process, *pidfd, disk, err);
    cgroup_close_doors(child.doors);
    if (result < 0 && *process > 0) {
        kill(*process, SIGKILL);
        waitpid(*process, NULL, 0);
        *process = -1;
        fd_close(steal_fd(pidfd));
        fd_close(steal_fd(disk));
    }
    return result;
}
