/* The launcher's own side: the program that the server executes. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fdpass.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/progress.h"
#include "base/title.h"
#include "engine/engine.h"
#include "image/image.h"
#include "sandbox/launch.h"
#include "sandbox/launcher.h"
#include "sandbox/launcher_internal.h"
#include "sandbox/state.h"

struct launcher_process {
    pid_t pid;
    int socket; /* to the server */
    int warm;   /* who may keep an interpreter warm; -1: nobody */
};

static int read_settings(const char *text, struct sandbox_config *config, struct error *err)
{
    json_t *json = json_loads(text, 0, NULL);
    int result = sandbox_config_from_json(json, config, err);
    json_decref(json);
    return result;
}

static int prepare_and_launch(struct sandbox_config *config, const struct buf *call,
                              struct error *err)
{
    struct image image = {0};
    bool is_new = !sandbox_config_is_copy(config);
    int result = 0;
    if (is_new)
        result = image_ensure(config->image, &image, err);
    if (is_new && result == 0) {
        launch_apply_image(config, &image);
        result = launch_prepare(config, err);
    }
    if (result == 0) {
        state_sweep();
        result = launch_keeper(config, call, err);
    }
    image_release(&image);
    return result;
}

/* The next ones will start faster. Images that we have not made are not trusted so far. */
static void keep_warm(const struct sandbox_config *config, pid_t launcher)
{
    struct error err;
    cleanup_fd int until = (int)syscall(SYS_pidfd_open, launcher, 0);
    if (until < 0 || getppid() != launcher || sandbox_config_is_copy(config) ||
        !image_is_built_in(config->image))
        return;
    title_set("msb server: warm interpreter");
    if (launch_keep_warm(config, until, &err) < 0)
        log_warn("no warm interpreter: %s", err.message);
}

static void enter_child(void)
{
    signal(SIGCHLD, SIG_DFL);
    progress_silence();
}

static _Noreturn void launch_plainly(const struct launcher_process *self,
                                     struct launcher_answer *answer, struct sandbox_config *config,
                                     const struct buf *call)
{
    enter_child();
    title_set("msb server: starting a sandbox");
    int fd = prepare_and_launch(config, call, &answer->err);
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
        enter_child();
        close(self->socket);
        keep_warm(config, self->pid);
        _exit(0);
    }
    if (child > 0)
        remember_child(self, child);
}

static void start_one(struct launcher_process *self, struct launcher_answer *answer,
                      struct sandbox_config *config, const struct buf *call)
{
    pid_t child = fork();
    if (child == 0)
        launch_plainly(self, answer, config, call);
    if (child > 0) {
        remember_child(self, child);
        return;
    }
    error_errno(&answer->err, errno, "cannot start another process");
    fdpass_send(self->socket, answer, sizeof *answer, -1);
}

static void start_ahead(const struct launcher_process *self, struct launcher_answer *answer,
                        const char *machine)
{
    cleanup_fd int fd = launch_ahead(machine, &answer->err);
    fdpass_send(self->socket, answer, sizeof *answer, fd);
}

static void serve_one(struct launcher_process *self, const char *request, size_t length)
{
    struct launcher_request head;
    struct sandbox_config config;
    memcpy(&head, request, sizeof head);
    struct launcher_answer answer = {.id = head.id};
    const char *settings = request + sizeof head;
    cleanup_free char *text = xstrndup(settings, head.settings_length);
    cleanup_buf struct buf call = {0};
    buf_append(&call, settings + head.settings_length, length - sizeof head - head.settings_length);
    if (head.kind == LAUNCHER_AHEAD) {
        start_ahead(self, &answer, text);
        return;
    }
    if (read_settings(text, &config, &answer.err) < 0)
        fdpass_send(self->socket, &answer, sizeof answer, -1);
    else if (head.kind == LAUNCHER_START)
        start_one(self, &answer, &config, &call);
    else
        renew_warmth(self, &config);
    sandbox_config_free(&config);
}

/* Ends with the server. */
_Noreturn void launcher_main(void)
{
    static char request[LAUNCHER_REQUEST_MAX];
    fcntl(LAUNCHER_FD, F_SETFD, FD_CLOEXEC);
    signal(SIGCHLD, SIG_IGN);
    title_set("msb server: launcher");
    struct launcher_process self = {.pid = getpid(), .socket = LAUNCHER_FD, .warm = -1};
    for (;;) {
        ssize_t got = recv(self.socket, request, sizeof request, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < (ssize_t)sizeof(struct launcher_request))
            _exit(0);
        serve_one(&self, request, (size_t)got);
    }
}
