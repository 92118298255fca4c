#include "engine/jail/process.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/fdpass.h"
#include "base/mem.h"
#include "base/wait.h"
#include "engine/agent_program.h"
#include "engine/ids.h"
#include "engine/jail/filter.h"
#include "engine/jail/image_mount.h"
#include "engine/jail/process_internal.h"
#include "engine/jail/warm.h"
#include "engine/mounts.h"

#define START_TIMEOUT_MS 10000
/* …when its disk has to be filled first. */
#define FILL_TIMEOUT_MS 600000
/* Descriptors of the agent, which sets the limit of what it starts itself. */
#define FILES_MIN 65536

static int spawn(struct jail_child *child, pid_t *process, int *pidfd, struct error *err)
{
    bool owned = child->jail->warm && warm_act_as_owner(child->jail->warm);
    *process = cgroup_clone(child->jail->cgroup, child->doors, CLONE_NEWTIME, pidfd);
    if (*process == 0)
        jail_child_main(child);
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

static int hand_over_mounts(const struct jail_child *child, int socket, pid_t process,
                            struct error *err)
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
static int see_through(const struct jail_child *child, int socket, pid_t process, int pidfd,
                       int *disk, struct error *err)
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

static int describe_volumes(struct jail_child *child, struct error *err)
{
    const struct machine_spec *spec = child->jail->spec;
    if (spec->volume_count > JAIL_VOLUMES_MAX)
        return error_set(err, ERROR_LIMIT, "at most %d folders can be shared", JAIL_VOLUMES_MAX);
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
    struct jail_child child = {.jail = jail,
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
                               .parent = sockets[1],
                               .caller = sockets[0]};
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
