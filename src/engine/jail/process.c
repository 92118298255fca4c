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
    int parent;         /* our end of the conversation with the caller */
};

/* ---- inside the new process ---------------------------------------------------------------- */

static int become_root(struct error *err)
{
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
    if (syscall(SYS_capset, &header, sets) < 0)
        return error_errno(err, errno, "cannot give up capabilities");
    return 0;
}

/* Keys of whoever started us stay outside. */
static int set_own_limits(struct error *err)
{
    struct rlimit none = {1, 1}; /* 0 would still start the host's program for core dumps */
    if (syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) < 0 && errno != ENOSYS)
        return error_errno(err, errno, "cannot make a keyring");
    if (setrlimit(RLIMIT_CORE, &none) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
        return error_errno(err, errno, "cannot limit the process");
    return keep_few_capabilities(err);
}

static bool told_to_go_on(const struct child *child, int *fd)
{
    char byte;
    return fdpass_receive(child->parent, &byte, 1, fd) == 1;
}

/* The mounts come from the caller: only it may translate their owners. */
static bool receive_mounts(struct child *child)
{
    if (!told_to_go_on(child, &child->root.image))
        return false;
    for (size_t i = 0; i < child->root.volume_count; i++) {
        if (!told_to_go_on(child, &child->volumes[i].tree))
            return false;
    }
    return true;
}

static int move_in(struct child *child, struct error *err)
{
    struct jail_sights sights;
    int result = root_look(&child->root, &sights, err);
    if (result == 0)
        result = become_root(err);
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
    int result = set_own_limits(err);
    if (result == 0)
        result = landlock_shut_in(err);
    return result < 0 ? result : filter_install(child->guards_modes, err);
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
    int none;
    setsid();
    for (int number = 1; number < NSIG; number++)
        signal(number, SIG_DFL);
    /* Nothing comes when the caller is dead. */
    if (!receive_mounts(child))
        _exit(1);
    int result = move_in(child, &err);
    if (result == 0 && !told_to_go_on(child, &none))
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
    *process = cgroup_clone(child->jail->cgroup, CLONE_NEWTIME, pidfd);
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

static int map_ids(pid_t process, uid_t first_user, struct error *err)
{
    char map[64];
    snprintf(map, sizeof map, "0 %u %u\n", first_user, JAIL_USERS);
    int result = ids_write_map(process, "uid_map", map, err);
    return result < 0 ? result : ids_write_map(process, "gid_map", map, err);
}

/* The image, read-only, its owners shifted to the jail's ids. */
static int mount_shifted_image(const char *path, pid_t process, struct error *err)
{
    char space_path[64];
    snprintf(space_path, sizeof space_path, "/proc/%d/ns/user", (int)process);
    cleanup_fd int space = open(space_path, O_RDONLY | O_CLOEXEC);
    if (space < 0)
        return error_errno(err, errno, "cannot open %s", space_path);
    cleanup_fd int tree = image_mount(path, err);
    if (tree < 0)
        return tree;
    struct mount_attr shift = {.attr_set = MOUNT_ATTR_IDMAP, .userns_fd = (unsigned)space};
    if (mount_setattr(tree, "", AT_EMPTY_PATH, &shift, sizeof shift) < 0)
        return error_errno(err, errno, "cannot shift the owners of the image's files");
    return steal_fd(&tree);
}

static int hand_over(int socket, int fd, struct error *err)
{
    if (fdpass_send(socket, "", 1, fd) < 0)
        return error_errno(err, errno, "the jail's process ended early");
    return 0;
}

static int hand_over_mounts(const struct child *child, int socket, pid_t process, struct error *err)
{
    const struct jail_process *jail = child->jail;
    const struct machine_spec *spec = jail->spec;
    cleanup_fd int image = mount_shifted_image(spec->image_path, process, err);
    int result = image < 0 ? image : hand_over(socket, image, err);
    /* Shared folders belong to who runs things inside. */
    uid_t owner = jail->first_user + warm_user_id(spec);
    for (size_t i = 0; result == 0 && i < spec->volume_count; i++) {
        cleanup_fd int tree = mount_volume(&spec->volumes[i], owner, err);
        result = tree < 0 ? tree : hand_over(socket, tree, err);
    }
    return result;
}

/* Nothing more is heard when it has executed the agent; otherwise, why it could not. */
static int hear_out(int socket, struct error *err)
{
    struct error said;
    int none;
    uint64_t deadline = clock_monotonic_ms() + START_TIMEOUT_MS;
    int ready = wait_readable(&socket, 1, deadline, "the jail", err);
    if (ready < 0)
        return ready;
    if (fdpass_receive(socket, &said, sizeof said, &none) != sizeof said)
        return 0;
    *err = said;
    return -1;
}

/* The limits take hold while the child builds its root: on version 1 that is the longer part. */
static int see_through(const struct child *child, int socket, pid_t process, struct error *err)
{
    const struct jail_process *jail = child->jail;
    rlim_t files = jail->spec->open_files > FILES_MIN ? jail->spec->open_files : FILES_MIN;
    int result = map_ids(process, jail->first_user, err);
    if (result == 0)
        result = hand_over_mounts(child, socket, process, err);
    if (result < 0)
        return result;
    prlimit(process, RLIMIT_NOFILE, &(struct rlimit){files, files}, NULL);
    if (jail->warm)
        prlimit(jail->warm->process, RLIMIT_NOFILE, &(struct rlimit){files, files}, NULL);
    if (!jail->cgroup->limits_at_birth && !cgroup_add(jail->cgroup, process))
        return error_set(err, ERROR_IO, "the jail cannot be put into its control group");
    /* Right behind, for then it costs nothing. */
    if (jail->warm && !cgroup_add(jail->cgroup, jail->warm->process))
        warm_let_go(jail->warm);
    cgroup_delegate(jail->cgroup, jail->first_user);
    fdpass_send(socket, "", 1, -1);
    return hear_out(socket, err);
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

int jail_process_start(const struct jail_process *jail, pid_t *process, int *pidfd,
                       struct error *err)
{
    const struct machine_spec *spec = jail->spec;
    int sockets[2];
    *process = -1;
    *pidfd = -1;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0)
        return error_errno(err, errno, "cannot make a socket pair");
    cleanup_fd int ours = sockets[0];
    cleanup_fd int program = agent_program_seal(err);
    struct child child = {.jail = jail,
                          .root = {.place = jail->place,
                                   .image = -1,
                                   .memory_mb = spec->memory_mb,
                                   .disk_mb = spec->disk_mb,
                                   .files = spec->files},
                          .program = program,
                          .parent = sockets[1]};
    for (int i = 0; i < GROUPS; i++)
        child.groups[i] = cgroup_show(jail->cgroup, (enum cgroup_view)i);
    int result = program < 0 ? program : describe_volumes(&child, err);
    if (result == 0)
        result = spawn(&child, process, pidfd, err);
    fd_close(sockets[1]);
    for (int i = 0; i < GROUPS; i++)
        fd_close(child.groups[i]);
    if (result == 0)
        result = see_through(&child, ours, *process, err);
    if (result == 0 && jail->warm)
        warm_admit(jail->warm, *pidfd, child.guards_modes);
    if (result < 0 && *process > 0) {
        kill(*process, SIGKILL);
        waitpid(*process, NULL, 0);
        *process = -1;
        fd_close(steal_fd(pidfd));
    }
    return result;
}
