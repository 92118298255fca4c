#include "sandbox/launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
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
#include "engine/engine.h"
#include "image/image.h"
#include "sandbox/launch.h"
#include "sandbox/state.h"

#define REQUEST_MAX 65536

enum request_kind {
    REQUEST_START,
    REQUEST_START_ANEW, /* not from the pool */
    REQUEST_KEEP,       /* in the pool, always; not answered */
};

/* A request is this and the settings as JSON. */
struct request {
    uint64_t id;
    uint64_t kind;
};

struct answer {
    uint64_t id;
    bool from_pool;
    struct error err; /* code 0: none */
};

/* The launcher's other message: what is in the pool has changed. */
struct notice {
    struct pool_counts pool;
};

_Static_assert(sizeof(struct answer) != sizeof(struct notice), "told apart by their length");

struct launcher_process {
    pid_t pid;
    int socket;          /* to the server */
    int warm;            /* who may keep an interpreter warm; -1: nobody */
    struct pools *pools; /* NULL: there is none */
    struct pool_counts told;
};

/* ---- the launcher's side ------------------------------------------------------------------- */

static int read_settings(const char *text, struct sandbox_config *config, struct error *err)
{
    json_t *json = json_loads(text, 0, NULL);
    int result = sandbox_config_from_json(json, config, err);
    json_decref(json);
    return result;
}

/* All about those is the keeper's to find out. */
static bool is_copy(const struct sandbox_config *config)
{
    return config->fork_of || config->snapshot;
}

/* Only what is quick: an image that has to be built is for a process of its own. Copies and what
 * keeps its files have machines of their own. */
static int take_from_pool(struct pools *pools, struct sandbox_config *config)
{
    struct image image = {0};
    struct error ignored;
    int fd = -1;
    if (!pools || is_copy(config) || config->keep)
        return -1;
    if (image_find(config->image, &image, &ignored) == 0) {
        launch_apply_image(config, &image);
        fd = pools_take(pools, config);
    }
    image_release(&image);
    return fd;
}

static void keep_in_pool(struct pools *pools, struct sandbox_config *config)
{
    struct image image = {0};
    struct error err;
    if (image_find(config->image, &image, &err) < 0) {
        log_warn("of %s nothing is made ahead: %s", config->image, err.message);
    } else {
        launch_apply_image(config, &image);
        if (pools_keep(pools, config) < 0)
            log_warn("of %s nothing is made ahead: there are too many kinds", config->image);
    }
    image_release(&image);
}

static int prepare_and_launch(struct sandbox_config *config, struct error *err)
{
    struct image image = {0};
    bool is_new = !is_copy(config);
    int result = 0;
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

static void enter_child(const struct launcher_process *self)
{
    if (self->pools)
        pools_forget(self->pools);
    signal(SIGCHLD, SIG_DFL);
    progress_silence();
}

static _Noreturn void launch_plainly(const struct launcher_process *self, struct answer *answer,
                                     struct sandbox_config *config)
{
    enter_child(self);
    title_set("msb server: starting a sandbox");
    int fd = prepare_and_launch(config, &answer->err);
    if (fdpass_send(self->socket, answer, sizeof *answer, fd) < 0)
        log_warn("the server is gone; the sandbox goes on without it");
    close(self->socket);
    fd_close(fd);
    if (fd >= 0)
        keep_warm(config, self->pid);
    _exit(0);
}

/* A child that may stay to keep an interpreter warm. */
static void remember_child(struct launcher_process *self, pid_t child)
{
    fd_close(self->warm);
    self->warm = (int)syscall(SYS_pidfd_open, child, 0);
}

/* What the pool made may be the last of its kind that was warm. */
static void renew_warmth(struct launcher_process *self, const struct sandbox_config *config)
{
    struct pollfd gone = {.fd = self->warm, .events = POLLIN};
    bool is_kept = self->warm >= 0 && poll(&gone, 1, 0) == 0;
    if (is_kept || !engine_find(config->engine)->keep_warm)
        return;
    pid_t child = fork();
    if (child == 0) {
        enter_child(self);
        close(self->socket);
        keep_warm(config, self->pid);
        _exit(0);
    }
    if (child > 0)
        remember_child(self, child);
}

static void serve_plainly(struct launcher_process *self, struct answer *answer,
                          struct sandbox_config *config)
{
    pid_t child = fork();
    if (child == 0)
        launch_plainly(self, answer, config);
    if (child > 0) {
        remember_child(self, child);
        return;
    }
    error_errno(&answer->err, errno, "cannot start another process");
    fdpass_send(self->socket, answer, sizeof *answer, -1);
}

static void start_one(struct launcher_process *self, const struct request *head,
                      struct sandbox_config *config)
{
    struct answer answer = {.id = head->id};
    cleanup_fd int fd = head->kind == REQUEST_START_ANEW ? -1 : take_from_pool(self->pools, config);
    answer.from_pool = fd >= 0;
    if (fd < 0) {
        serve_plainly(self, &answer, config);
        return;
    }
    fdpass_send(self->socket, &answer, sizeof answer, fd);
    renew_warmth(self, config);
}

static void serve_one(struct launcher_process *self, const char *request, size_t length)
{
    struct request head;
    struct sandbox_config config;
    memcpy(&head, request, sizeof head);
    struct answer answer = {.id = head.id};
    cleanup_free char *text = xstrndup(request + sizeof head, length - sizeof head);
    if (read_settings(text, &config, &answer.err) < 0)
        fdpass_send(self->socket, &answer, sizeof answer, -1);
    else if (head.kind != REQUEST_KEEP)
        start_one(self, &head, &config);
    else if (self->pools)
        keep_in_pool(self->pools, &config);
    sandbox_config_free(&config);
}

static void tell_counts(struct launcher_process *self)
{
    const struct pool_counts *now = pools_counts(self->pools);
    if (memcmp(now, &self->told, sizeof *now) == 0)
        return;
    self->told = *now;
    struct notice notice = {.pool = *now};
    fdpass_send(self->socket, &notice, sizeof notice, -1);
    log_info("pool: %" PRIu64 " in stock, %" PRIu64 " hits, %" PRIu64 " misses, %" PRIu64
             " made, %" PRIu64 " dropped",
             now->stock, now->hits, now->misses, now->made, now->dropped);
}

/* Ends with the server, and what was made ahead with it. */
_Noreturn void launcher_main(void)
{
    static char request[REQUEST_MAX];
    const int socket = LAUNCHER_FD;
    fcntl(socket, F_SETFD, FD_CLOEXEC);
    signal(SIGCHLD, SIG_IGN);
    title_set("msb server: launcher");
    struct launcher_process self = {
        .pid = getpid(), .socket = socket, .warm = -1, .pools = pools_open()};
    for (;;) {
        struct pollfd wait[] = {
            {.fd = socket, .events = POLLIN},
            {.fd = self.pools ? pools_fd(self.pools) : -1, .events = POLLIN},
            {.fd = self.pools ? pools_pressure(self.pools) : -1, .events = POLLPRI}};
        if (poll(wait, 3, -1) > 0 && wait[2].revents)
            pools_give_up(self.pools);
        ssize_t got = recv(socket, request, sizeof request, MSG_DONTWAIT);
        if (got >= 0 && got < (ssize_t)sizeof(struct request))
            _exit(0);
        if (got > 0)
            serve_one(&self, request, (size_t)got);
        else if (self.pools)
            pools_tend(self.pools);
        if (self.pools)
            tell_counts(&self);
    }
}

/* ---- the server's side --------------------------------------------------------------------- */

static void end_launch(struct launcher *launcher, const struct answer *answer, int fd)
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
    launch->from_pool = answer->from_pool;
    launch->ended(launch, fd, &answer->err);
}

static void on_handle_closed(uv_handle_t *handle)
{
    free(handle);
}

static void lose(struct launcher *launcher)
{
    struct answer none = {0};
    error_set(&none.err, ERROR_UNAVAILABLE, "the process that starts sandboxes has ended");
    error_hint(&none.err, "try again: there will be a new one");
    log_error("the launcher has ended; the next start makes a new one");
    uv_close((uv_handle_t *)steal_pointer(&launcher->poll), on_handle_closed);
    close(steal_fd(&launcher->fd));
    launcher->pool.stock = 0;
    while (launcher->launches) {
        none.id = launcher->launches->id;
        end_launch(launcher, &none, -1);
    }
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    (void)status, (void)events;
    struct launcher *launcher = poll->data;
    union {
        struct answer answer;
        struct notice notice;
    } message;
    int fd;
    ssize_t got = fdpass_receive(launcher->fd, &message, sizeof message, &fd);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got == sizeof message.answer)
        end_launch(launcher, &message.answer, fd);
    else if (got == sizeof message.notice)
        launcher->pool = message.notice.pool;
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

static void write_request(struct buf *request, const struct sandbox_config *config)
{
    json_t *json = sandbox_config_to_json(config);
    cleanup_free char *text = json_dumps(json, JSON_COMPACT);
    json_decref(json);
    const struct request head = {0};
    buf_append(request, &head, sizeof head);
    buf_append_text(request, text);
}

static int send_request(struct launcher *launcher, struct buf *request, enum request_kind kind,
                        struct error *err)
{
    if (launcher->fd < 0 && make(launcher, err) < 0)
        return -1;
    const struct request head = {.id = launcher->next_id++, .kind = kind};
    memcpy(buf_data(request), &head, sizeof head);
    if (buf_length(request) > REQUEST_MAX)
        return error_set(err, ERROR_LIMIT, "the sandbox's settings are too long");
    if (fdpass_send(launcher->fd, buf_data(request), buf_length(request), -1) < 0)
        return error_errno(err, errno, "cannot reach the launcher");
    return 0;
}

static int send_launch(struct launcher *launcher, struct launch *launch, enum request_kind kind,
                       struct error *err)
{
    launch->id = launcher->next_id;
    if (send_request(launcher, &launch->request, kind, err) < 0)
        return -1;
    launch->next = launcher->launches;
    launcher->launches = launch;
    return 0;
}

int launcher_start(struct launcher *launcher, struct launch *launch,
                   const struct sandbox_config *config, struct error *err)
{
    write_request(&launch->request, config);
    return send_launch(launcher, launch, REQUEST_START, err);
}

int launcher_start_anew(struct launcher *launcher, struct launch *launch, struct error *err)
{
    return send_launch(launcher, launch, REQUEST_START_ANEW, err);
}

int launcher_keep(struct launcher *launcher, const struct sandbox_config *config, struct error *err)
{
    cleanup_buf struct buf request = {0};
    write_request(&request, config);
    return send_request(launcher, &request, REQUEST_KEEP, err);
}

void launch_free(struct launch *launch)
{
    buf_free(&launch->request);
}
