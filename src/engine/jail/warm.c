#include "engine/jail/warm.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/digest.h"
#include "base/fdpass.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/wait.h"
#include "engine/jail/filter.h"
#include "engine/jail/process.h"

/* A zygote that is busy for longer than that is no help. */
#define TAKE_MS 300
#define END_MS 1000

const char *warm_user(const struct machine_spec *spec)
{
    return spec->user ? spec->user : "root";
}

/* Interpreter and agent must be of one make: this program's. */
socklen_t warm_address(const struct machine_spec *spec, struct sockaddr_un *address)
{
    struct stat program = {0};
    char hex[65];
    cleanup_buf struct buf key = {0};
    stat("/proc/self/exe", &program);
    buf_printf(&key, "%s\n%s\n%ju %ju %ju %ju\n", spec->image_digest, warm_user(spec),
               (uintmax_t)program.st_dev, (uintmax_t)program.st_ino,
               (uintmax_t)program.st_mtim.tv_sec, (uintmax_t)program.st_mtim.tv_nsec);
    for (char *const *at = spec->env; at && *at; at++)
        buf_printf(&key, "%s\n", *at);
    digest_bytes(buf_data(&key), buf_length(&key), hex);
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    int length =
        snprintf(address->sun_path + 1, sizeof address->sun_path - 1, "msb-zygote-%s", hex);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

/* Nobody but root is asked: others could have taken the name. */
static int ask(const struct machine_spec *spec)
{
    struct sockaddr_un address;
    struct ucred peer;
    socklen_t size = sizeof peer;
    socklen_t length = warm_address(spec, &address);
    cleanup_fd int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, length) < 0 ||
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 || peer.uid != 0)
        return -1;
    return steal_fd(&fd);
}

static bool receive_offer(int socket, struct warm_copy *copy)
{
    struct error late;
    struct warm_offer offer;
    if (wait_readable(&socket, 1, clock_monotonic_ms() + TAKE_MS, "the zygote", &late) < 0 ||
        fdpass_receive(socket, &offer, sizeof offer, &copy->control) != sizeof offer)
        return false;
    copy->process = offer.process;
    copy->owner = offer.owner;
    copy->pidfd = (int)syscall(SYS_pidfd_open, offer.process, 0);
    return copy->control >= 0 && copy->pidfd >= 0;
}

/* What runs inside may open its own pipes again, so they have an owner there. */
static bool make_pipe(int *reads, int *writes, int *ours, uid_t owner)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return false;
    *reads = ends[0];
    *writes = ends[1];
    return fcntl(*ours, F_SETFL, O_NONBLOCK) == 0 && fchown(*ours, owner, owner) == 0;
}

static bool make_wires(struct warm_copy *copy, uid_t owner)
{
    int *agent = copy->agent_ends + 1, *its = copy->its_ends, link[2];
    if (fdpass_pair(link) < 0)
        return false;
    copy->agent_ends[0] = link[0];
    copy->its_ends[WARM_ENDS - 1] = link[1];
    return make_pipe(&agent[0], &its[0], &agent[0], owner) &&
           make_pipe(&agent[1], &its[1], &agent[1], owner) &&
           make_pipe(&its[2], &agent[2], &agent[2], owner) &&
           make_pipe(&agent[3], &its[3], &agent[3], owner);
}

bool warm_take(const struct machine_spec *spec, uid_t first_user, struct warm_copy *copy)
{
    *copy = (struct warm_copy){.control = -1, .pidfd = -1};
    memset(copy->agent_ends, -1, sizeof copy->agent_ends);
    memset(copy->its_ends, -1, sizeof copy->its_ends);
    bool has_other_files = spec->disk || spec->from;
    if (has_other_files || !spec->language || strcmp(spec->language, "python") != 0)
        return false;
    cleanup_fd int socket = ask(spec);
    if (socket >= 0 && receive_offer(socket, copy) && make_wires(copy, first_user))
        return true;
    warm_let_go(copy);
    fd_close(copy->pidfd);
    return false;
}

static bool use_all_capabilities(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct sets[2];
    if (syscall(SYS_capget, &header, sets) < 0)
        return false;
    for (int i = 0; i < 2; i++)
        sets[i].effective = sets[i].permitted;
    return syscall(SYS_capset, &header, sets) == 0;
}

/* System calls, since the library's functions would change all threads. Files are still opened as
 * root. */
bool warm_act_as_owner(const struct warm_copy *copy)
{
    if (syscall(SYS_setresuid, -1, copy->owner, -1) < 0)
        return false;
    setfsuid(0);
    if (use_all_capabilities())
        return true;
    warm_act_as_root();
    return false;
}

void warm_act_as_root(void)
{
    if (syscall(SYS_setresuid, -1, 0, -1) < 0)
        log_error("cannot be root again: %s", strerror(errno));
}

bool warm_seat(const struct warm_copy *copy, const int doors[CGROUP_FOLDERS])
{
    int open[CGROUP_FOLDERS];
    size_t count = 0;
    for (size_t i = 0; i < CGROUP_FOLDERS; i++) {
        if (doors[i] >= 0)
            open[count++] = doors[i];
    }
    return count > 0 && fdpass_send_all(copy->control, "", 1, open, count) == 0;
}

void warm_admit(struct warm_copy *copy, int pidfd, bool guards_modes)
{
    struct error err;
    cleanup_buf struct buf program = {0};
    int fds[1 + WARM_ENDS] = {pidfd};
    memcpy(fds + 1, copy->its_ends, sizeof copy->its_ends);
    if (copy->control >= 0 && filter_write_rest(guards_modes, &program, &err) == 0 &&
        fdpass_send_all(copy->control, buf_data(&program), buf_length(&program), fds,
                        1 + WARM_ENDS) < 0)
        log_info("a warm interpreter was gone: %s", strerror(errno));
}

void warm_let_go(struct warm_copy *copy)
{
    fd_close(copy->control);
    copy->control = -1;
    for (int i = 0; i < WARM_ENDS; i++) {
        fd_close(copy->agent_ends[i]);
        fd_close(copy->its_ends[i]);
        copy->agent_ends[i] = copy->its_ends[i] = -1;
    }
}

void warm_end(int pidfd)
{
    struct pollfd ended = {.fd = pidfd, .events = POLLIN};
    if (pidfd < 0)
        return;
    syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
    poll(&ended, 1, END_MS);
    close(pidfd);
}
