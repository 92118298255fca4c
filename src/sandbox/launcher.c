#include "sandbox/launcher.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fdpass.h"
#include "base/log.h"
#include "base/mem.h"
#include "sandbox/launcher_internal.h"

static void end_launch(struct launcher *launcher, const struct launcher_answer *answer, int fd)
{
    struct launch **at = &launcher->launches;
    while (*at && (*at)->id != answer->id)
        at = &(*at)->next;
    struct launch *launch = *at;
    if (!launch) {
        fd_close(fd);
        return;
    }
    *at = launch->next;
    launch->ended(launch, fd, &answer->err);
}

static void on_handle_closed(uv_handle_t *handle)
{
    free(handle);
}

static void lose(struct launcher *launcher)
{
    struct launcher_answer none = {0};
    error_set(&none.err, ERROR_UNAVAILABLE, "the process that starts sandboxes has ended");
    error_hint(&none.err, "try again: there will be a new one");
    log_error("the launcher has ended; the next start makes a new one");
    uv_close((uv_handle_t *)steal_pointer(&launcher->poll), on_handle_closed);
    close(steal_fd(&launcher->fd));
    while (launcher->launches) {
        none.id = launcher->launches->id;
        end_launch(launcher, &none, -1);
    }
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    (void)status, (void)events;
    struct launcher *launcher = poll->data;
    struct launcher_answer answer;
    int fd;
    ssize_t got = fdpass_receive(launcher->fd, &answer, sizeof answer, &fd);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got == sizeof answer)
        end_launch(launcher, &answer, fd);
    else
        lose(launcher);
}

static void on_launcher_exit(uv_process_t *process, int64_t status, int signal)
{
    (void)status, (void)signal;
    uv_close((uv_handle_t *)process, on_handle_closed);
}

/* Executed, not forked: this process may have threads. */
static int spawn(uv_loop_t *loop, int socket)
{
    static char program[] = "msb", first[] = "server", second[] = "launcher";
    /* Keepers write their names over the command line. */
    static char room[] = "................................................................";
    char *arguments[] = {program, first, second, room, NULL};
    uv_stdio_container_t descriptors[] = {
        {.flags = UV_IGNORE},
        {.flags = UV_IGNORE},
        {.flags = UV_INHERIT_FD, .data.fd = STDERR_FILENO},
        [LAUNCHER_FD] = {.flags = UV_INHERIT_FD, .data.fd = socket},
    };
    uv_process_options_t options = {
        .file = "/proc/self/exe",
        .args = arguments,
        .flags = UV_PROCESS_DETACHED,
        .stdio = descriptors,
        .stdio_count = sizeof descriptors / sizeof descriptors[0],
        .exit_cb = on_launcher_exit,
    };
    uv_process_t *process = xcalloc(1, sizeof *process);
    int result = uv_spawn(loop, process, &options);
    if (result < 0)
        uv_close((uv_handle_t *)process, on_handle_closed);
    return result;
}

static int watch(struct launcher *launcher)
{
    uv_poll_t *poll = xcalloc(1, sizeof *poll);
    int result = uv_poll_init(launcher->loop, poll, launcher->fd);
    if (result < 0) {
        free(poll);
        return result;
    }
    poll->data = launcher;
    launcher->poll = poll;
    return uv_poll_start(poll, UV_READABLE, on_readable);
}

static int make(struct launcher *launcher, struct error *err)
{
    int sockets[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0)
        return error_errno(err, errno, "cannot make a socket pair");
    int result = spawn(launcher->loop, sockets[1]);
    close(sockets[1]);
    if (result < 0) {
        close(sockets[0]);
        return error_errno(err, -result, "cannot start the launcher");
    }
    launcher->fd = sockets[0];
    result = watch(launcher);
    return result < 0 ? error_errno(err, -result, "cannot watch the launcher") : 0;
}

int launcher_open(struct launcher *launcher, uv_loop_t *loop, struct error *err)
{
    *launcher = (struct launcher){.loop = loop, .fd = -1};
    return make(launcher, err);
}

static int send_request(struct launcher *launcher, const struct launch *launch,
                        enum launcher_request_kind kind, struct error *err)
{
    cleanup_buf struct buf request = {0};
    const struct launcher_request head = {
        .id = launch->id, .kind = kind, .settings_length = strlen(launch->settings)};
    buf_append(&request, &head, sizeof head);
    buf_append_text(&request, launch->settings);
    buf_append(&request, buf_data(&launch->call), buf_length(&launch->call));
    if (fdpass_send(launcher->fd, buf_data(&request), buf_length(&request), -1) < 0)
        return error_errno(err, errno, "cannot reach the launcher");
    return 0;
}

static int start(struct launcher *launcher, struct launch *launch, enum launcher_request_kind kind,
                 struct error *err)
{
    launch->id = launcher->next_id++;
    if ((launcher->fd < 0 && make(launcher, err) < 0) ||
        send_request(launcher, launch, kind, err) < 0)
        return -1;
    launch->next = launcher->launches;
    launcher->launches = launch;
    return 0;
}

int launcher_start(struct launcher *launcher, struct launch *launch, struct error *err)
{
    return start(launcher, launch, LAUNCHER_START, err);
}

int launcher_start_ahead(struct launcher *launcher, struct launch *launch, struct error *err)
{
    return start(launcher, launch, LAUNCHER_AHEAD, err);
}

void launcher_renew_warmth(struct launcher *launcher, const struct launch *launch)
{
    struct error ignored;
    if (launcher->fd >= 0)
        send_request(launcher, launch, LAUNCHER_WARM, &ignored);
}

void launch_free(struct launch *launch)
{
    free(steal_pointer(&launch->settings));
    buf_free(&launch->call);
}
