#include "engine/jail/zygote_process.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/keyctl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/home.h"
#include "base/mem.h"
#include "base/signals.h"
#include "engine/agent_program.h"
#include "engine/ids.h"
#include "engine/jail/filter.h"
#include "engine/jail/image_mount.h"
#include "engine/jail/process.h"
#include "engine/jail/root.h"
#include "engine/jail/warm.h"

#define MEMORY_MB 512
enum { FD_LINK = 3, FD_PROGRAM, FD_COUNT };

static int map_both(const void *map, pid_t process, struct error *err)
{
    int result = ids_write_map(process, "uid_map", map, err);
    return result < 0 ? result : ids_write_map(process, "gid_map", map, err);
}

/* The image's user is ours; the others keep their numbers, and mean nobody to it. */
static int mount_own_image(const struct machine_spec *spec, uid_t user, struct error *err)
{
    char map[128];
    uid_t inside = jail_user(spec);
    int length = inside > 0 ? snprintf(map, sizeof map, "0 0 %u\n", inside) : 0;
    snprintf(map + length, sizeof map - (size_t)length, "%u %u 1\n%u %u %u\n", inside, user,
             inside + 1, inside + 1, JAIL_USERS - inside - 1);
    cleanup_fd int space = ids_space(map_both, map, err);
    cleanup_fd int tree = space < 0 ? -1 : image_mount(spec->image_path, err);
    if (tree < 0)
        return -1;
    struct mount_attr shift = {.attr_set = MOUNT_ATTR_IDMAP, .userns_fd = (unsigned)space};
    if (mount_setattr(tree, "", AT_EMPTY_PATH, &shift, sizeof shift) < 0)
        return error_errno(err, errno, "cannot shift the owners of the image's files");
    return steal_fd(&tree);
}

static int move_in(const struct machine_spec *spec, uid_t user, struct error *err)
{
    struct jail_sights sights;
    cleanup_fd int image = mount_own_image(spec, user, err);
    struct jail_root root = {.place = home_folder(),
                             .image = image,
                             .disk = -1,
                             .archive = -1,
                             .keeper = -1,
                             .has_groups = true,
                             .memory_mb = MEMORY_MB,
                             .disk_mb = MEMORY_MB / 2,
                             .bare = true};
    int result = image < 0 ? image : root_look(&root, &sights, err);
    if (result == 0)
        result = root_enter(&root, &sights, err);
    if (result == 0 && chown("/run", user, user) < 0)
        return error_errno(err, errno, "cannot give away /run");
    return result;
}

static int arrange_descriptors(int link, int program, struct error *err)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int wanted[FD_COUNT] = {null, null, STDERR_FILENO, link, program};
    for (int i = 0; i < FD_COUNT; i++)
        wanted[i] = fcntl(wanted[i], F_DUPFD_CLOEXEC, FD_COUNT);
    for (int i = 0; i < FD_COUNT; i++) {
        if (wanted[i] < 0 || dup2(wanted[i], i) < 0)
            return error_errno(err, errno, "cannot arrange descriptors");
    }
    close_range(FD_COUNT, ~0U, 0);
    fcntl(FD_PROGRAM, F_SETFD, FD_CLOEXEC);
    return 0;
}

static int give_up_everything(uid_t user, struct error *err)
{
    const struct rlimit none = {1, 1};
    if (syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) < 0 && errno != ENOSYS)
        return error_errno(err, errno, "cannot make a keyring");
    for (int i = 0; i <= CAP_LAST_CAP; i++) {
        if (prctl(PR_CAPBSET_DROP, i) < 0 && errno != EINVAL)
            return error_errno(err, errno, "cannot give up capabilities");
    }
    if (setrlimit(RLIMIT_CORE, &none) < 0 || setgroups(0, NULL) < 0 ||
        setresgid(user, user, user) < 0 || setresuid(user, user, user) < 0 ||
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
        return error_errno(err, errno, "cannot limit the process");
    cleanup_fd int filter = filter_make_zygote(err);
    return filter < 0 ? filter : filter_install(filter, err);
}

static _Noreturn void child_main(const struct machine_spec *spec, uid_t user, int link, int program,
                                 pid_t parent)
{
    struct error err;
    char *no_env[] = {NULL};
    char *argv[] = {"msb-agent", "--zygote", "3", (char *)(uintptr_t)warm_user(spec), NULL};
    setsid();
    signals_reset();
    int result = move_in(spec, user, &err);
    if (result == 0)
        result = arrange_descriptors(link, program, &err);
    if (result == 0)
        result = give_up_everything(user, &err);
    if (getppid() != parent)
        _exit(1);
    if (result == 0) {
        execveat(FD_PROGRAM, "", argv, spec->env ? spec->env : no_env, AT_EMPTY_PATH);
        error_errno(&err, errno, "cannot execute the agent");
    }
    dprintf(STDERR_FILENO, "no warm interpreter: %s\n", err.message);
    _exit(1);
}

pid_t zygote_process_start(const struct machine_spec *spec, uid_t user, int link, struct error *err)
{
    cleanup_fd int program = agent_program_seal(err);
    if (program < 0)
        return program;
    pid_t parent = getpid();
    const int flags = CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | SIGCHLD;
    pid_t child = (pid_t)syscall(SYS_clone, flags, NULL, NULL, NULL, NULL);
    if (child == 0)
        child_main(spec, user, link, program, parent);
    return child > 0 ? child : error_errno(err, errno, "cannot make namespaces for the zygote");
}
