#include "sandbox/launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fdpass.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/progress.h"
#include "base/title.h"
#include "image/image.h"
#include "sandbox/launch.h"
#include "sandbox/state.h"

#define REQUEST_MAX 65536

/* A request is an id and the settings as JSON, the answer an id and an error (code 0: none). */
struct answer {
    uint64_t id;
    struct error err;
};

/* ---- the launcher's side ------------------------------------------------------------------- */

/* All about those is the keeper's to find out. */
static bool is_copy(const struct sandbox_config *config)
{
    return config->fork_of || config->snapshot;
}

static int prepare_and_launch(struct sandbox_config *config, const char *text, struct error *err)
{
    struct image image = {0};
    json_t *json = json_loads(text, 0, NULL);
    int result = sandbox_config_from_json(json, config, err);
    json_decref(json);
    bool is_new = result == 0 && !is_copy(config);
    if (is_new)
        result = image_ensure(config->image, &image, err);
    if (is_new && result == 0) {
        launch_apply_image(config, &image);
        result = launch_prepare(config, err);
    }
    if (result == 0) {
        state_sweep();
        result = launch_keeper(config, err);
    }
    image_release(&image);
    return result;
}

/* The next ones will start faster. Images that we have not made are not trusted so far. */
static void keep_warm(const struct sandbox_config *config, pid_t launcher)
{
    struct error err;
    cleanup_fd int until = (int)syscall(SYS_pidfd_open, launcher, 0);
    if (until < 0 || getppid() != launcher || is_copy(config) || !image_is_built_in(config->image))
        return;
    title_set("msb server: warm interpreter");
    if (launch_keep_warm(config, until, &err) < 0)
        log_warn("no warm interpreter: %s", err.message);
}

static _Noreturn void serve_one(int socket, const uint8_t *request, size_t length, pid_t launcher)
{
    struct answer answer = {0};
    struct sandbox_config config;
    cleanup_free char *text =
        xstrndup((const char *)request + sizeof answer.id, length - sizeof answer.id);
    memcpy(&answer.id, request, sizeof answer.id);
    signal(SIGCHLD, SIG_DFL);
    progress_silence();
    title_set("msb server: starting a sandbox");
    int fd = prepare_and_launch(&config, text, &answer.err);
    if (fdpass_send(socket, &answer, sizeof answer, fd) < 0)
        log_warn("the server is gone; the sandbox goes on without it");
    close(socket);
    fd_close(fd);
    if (fd >= 0)
        keep_warm(&config, launcher);
    _exit(0);
}

static void refuse_one(int socket, const uint8_t *request, int number)
{
    struct answer answer = {0};
    memcpy(&answer.id, request, sizeof answer.id);
    error_errno(&answer.err, number, "cannot start another process");
    fdpass_send(socket, &answer, sizeof answer, -1);
}

_Noreturn void launcher_main(void)
{
    static uint8_t request[REQUEST_MAX];
    const int socket = LAUNCHER_FD;
    fcntl(socket, F_SETFD, FD_CLOEXEC);
    signal(SIGCHLD, SIG_IGN);
    title_set("msb server: launcher");
    pid_t self = getpid();
    for (;;) {
        ssize_t got = recv(socket, request, sizeof request, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < (ssize_t)sizeof(uint64_t))
            _exit(0);
        pid_t child = fork();
        if (child == 0)
            serve_one(socket, request, (size_t)got, self);
        if (child < 0)
            refuse_one(socket, request, errno);
    }
}

/* ---- the server's side --------------------------------------------------------------------- */

static void end_launch(struct launcher *launcher, uint64_t id, int fd, const struct error *err)
{
    struct launch **at = &launcher->launches;
    while (*at && (*at)->id != id)
        at = &(*at)->next;
    struct launch *launch = *at;
    if (!launch) {
        fd_close(fd);
        return;
    }
    *at = launch->next;
    launch->ended(launch, fd, err);
}

static void on_handle_closed(uv_handle_t *handle)
{
    free(handle);
}

static void lose(struct launcher *launcher)
{
    struct error err;
    error_set(&err, ERROR_UNAVAILABLE, "the process that starts sandboxes has ended");
    error_hint(&err, "try again: there will be a new one");
    log_error("the launcher has ended; the next start makes a new one");
    uv_close((uv_handle_t *)steal_pointer(&launcher->poll), on_handle_closed);
    close(steal_fd(&launcher->fd));
    while (launcher->launches)
        end_launch(launcher, launcher->launches->id, -1, &err);
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    (void)status, (void)events;
    struct launcher *launcher = poll->data;
    struct answer answer;
    int fd;
    ssize_t got = fdpass_receive(launcher->fd, &answer, sizeof answer, &fd);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got != sizeof answer)
        lose(launcher);
    else
        end_launch(launcher, answer.id, fd, &answer.err);
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

int launcher_start(struct launcher *launcher, struct launch *launch,
                   const struct sandbox_config *config, struct error *err)
{
    cleanup_buf struct buf request = {0};
    if (launcher->fd < 0 && make(launcher, err) < 0)
        return -1;
    json_t *json = sandbox_config_to_json(config);
    cleanup_free char *text = json_dumps(json, JSON_COMPACT);
    json_decref(json);
    launch->id = launcher->next_id++;
    buf_append(&request, &launch->id, sizeof launch->id);
    buf_append_text(&request, text);
    if (buf_length(&request) > REQUEST_MAX)
        return error_set(err, ERROR_LIMIT, "the sandbox's settings are too long");
    if (fdpass_send(launcher->fd, buf_data(&request), buf_length(&request), -1) < 0)
        return error_errno(err, errno, "cannot reach the launcher");
    launch->next = launcher->launches;
    launcher->launches = launch;
    return 0;
}
