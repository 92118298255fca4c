#include "engine/jail/zygote.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fdpass.h"
#include "base/mem.h"
#include "base/wait.h"
#include "engine/jail/jail.h"
#include "engine/jail/warm.h"
#include "engine/jail/zygote_process.h"

#define START_MS 60000
#define COPY_MS 10000
/* The next copy is made when the jail that took the last one has started. */
#define RESTOCK_MS 50
#define WAITING 128

struct zygote {
    uid_t user;
    pid_t process;
    int link;
    int listening;
    int until;
    int copy; /* the control socket of the one in store; -1: none */
    pid_t copy_process;
};

static pid_t hear_from(int socket, uid_t user, int timeout_ms, struct error *err)
{
    struct ucred sender;
    uint64_t deadline = clock_monotonic_ms() + (uint64_t)timeout_ms;
    int ready = wait_readable(&socket, 1, deadline, "the zygote", err);
    if (ready < 0)
        return ready;
    if (fdpass_read_sender(socket, &sender) && sender.pid > 0 && sender.uid == user)
        return sender.pid;
    return error_set(err, ERROR_UNAVAILABLE, "the zygote has ended");
}

/* The other end is returned. */
static int open_link(int *ours)
{
    int ends[2];
    if (fdpass_pair(ends) < 0)
        return -1;
    *ours = ends[0];
    return ends[1];
}

/* Fails when there is a keeper already. Who asks before we listen is refused at once. */
static int take_address(const struct machine_spec *spec)
{
    struct sockaddr_un address;
    socklen_t length = warm_address(spec, &address);
    cleanup_fd int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    return fd >= 0 && bind(fd, (struct sockaddr *)&address, length) == 0 ? steal_fd(&fd) : -1;
}

static int make_copy(struct zygote *zygote, struct error *err)
{
    cleanup_fd int theirs = open_link(&zygote->copy);
    if (theirs < 0)
        return error_errno(err, errno, "cannot make a socket pair");
    if (fdpass_send(zygote->link, "c", 1, theirs) < 0)
        return error_errno(err, errno, "the zygote takes no orders");
    fd_close(steal_fd(&theirs));
    zygote->copy_process = hear_from(zygote->copy, zygote->user, COPY_MS, err);
    return zygote->copy_process > 0 ? 0 : -1;
}

static int hand_out(struct zygote *zygote, struct error *err)
{
    struct ucred peer;
    socklen_t size = sizeof peer;
    cleanup_fd int fd = accept4(zygote->listening, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0 || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 || peer.uid != 0)
        return 0;
    if (zygote->copy < 0 && make_copy(zygote, err) < 0)
        return -1;
    struct warm_offer offer = {.process = zygote->copy_process, .owner = zygote->user};
    if (fdpass_send(fd, &offer, sizeof offer, zygote->copy) < 0)
        return 0;
    fd_close(zygote->copy);
    zygote->copy = -1;
    return 0;
}

/* Anything from a copy in store, or from the zygote, means that it is not what it should be. */
static int serve(struct zygote *zygote, struct error *err)
{
    for (;;) {
        struct pollfd fds[] = {{.fd = zygote->until, .events = POLLIN},
                               {.fd = zygote->listening, .events = POLLIN},
                               {.fd = zygote->link, .events = POLLIN},
                               {.fd = zygote->copy, .events = POLLIN}};
        int count = poll(fds, 4, zygote->copy < 0 ? RESTOCK_MS : -1);
        if (count < 0 && errno != EINTR)
            return error_errno(err, errno, "cannot wait");
        if (count < 0)
            continue;
        if (fds[0].revents)
            return 0;
        if (fds[2].revents || fds[3].revents)
            return error_set(err, ERROR_UNAVAILABLE, "the zygote has ended");
        int result = 0;
        if (fds[1].revents)
            result = hand_out(zygote, err);
        else if (count == 0)
            result = make_copy(zygote, err);
        if (result < 0)
            return result;
    }
}

static int start_and_serve(struct zygote *zygote, const struct machine_spec *spec,
                           struct error *err)
{
    cleanup_fd int theirs = open_link(&zygote->link);
    if (theirs < 0)
        return error_errno(err, errno, "cannot make a socket pair");
    zygote->process = zygote_process_start(spec, zygote->user, theirs, err);
    fd_close(steal_fd(&theirs));
    if (zygote->process < 0 || hear_from(zygote->link, zygote->user, START_MS, err) < 0)
        return -1;
    if (listen(zygote->listening, WAITING) < 0)
        return error_errno(err, errno, "cannot listen");
    return serve(zygote, err);
}

int zygote_keep(const struct machine_spec *spec, int until, struct error *err)
{
    struct zygote zygote = {.link = -1, .listening = -1, .copy = -1, .until = until};
    cleanup_fd int range = -1;
    if (geteuid() != 0 || jail_missing() || !spec->language ||
        strcmp(spec->language, "python") != 0)
        return 0;
    zygote.listening = take_address(spec);
    if (zygote.listening < 0)
        return 0;
    /* Copies are nobody's children, until we are told to take those; they need no funeral. */
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    signal(SIGCHLD, SIG_IGN);
    range = jail_take_range(&zygote.user, err);
    int result = range < 0 ? range : start_and_serve(&zygote, spec, err);
    fd_close(zygote.copy);
    fd_close(zygote.listening);
    fd_close(zygote.link);
    if (zygote.process > 0)
        kill(zygote.process, SIGKILL);
    return result;
}
