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
    int socket;          /* to the server */
    int warm;            /* who may keep an interpreter warm; -1: nobody */
    struct pools *pools; /* NULL: there is none */
    struct pool_counts told;
};

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
static int take_from_pool(struct pools *pools, struct sandbox_config *config,
                          const struct buf *call)
{
    struct image image = {0};
    struct error ignored;
    int fd = -1;
    if (!pools || is_copy(config) || config->keep)
        return -1;
    if (image_find(config->image, &image, &ignored) == 0) {
        launch_apply_image(config, &image);
        fd = pools_take(pools, config, call);
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

static int prepare_and_launch(struct sandbox_config *config, const struct buf *call,
                              struct error *err)
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

static _Noreturn void launch_plainly(const struct launcher_process *self,
                                     struct launcher_answer *answer, struct sandbox_config *config,
                                     const struct buf *call)
{
    enter_child(self);
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
        enter_child(self);
        close(self->socket);
        keep_warm(config, self->pid);
        _exit(0);
    }
    if (child > 0)
        remember_child(self, child);
}

static void serve_plainly(struct launcher_process *self, struct launcher_answer *answer,
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

static void start_one(struct launcher_process *self, const struct launcher_request *head,
                      struct sandbox_config *config, const struct buf *call)
{
    struct launcher_answer answer = {.id = head->id};
    cleanup_fd int fd =
        head->kind == LAUNCHER_START_ANEW ? -1 : take_from_pool(self->pools, config, call);
    answer.from_pool = fd >= 0;
    if (fd < 0) {
        serve_plainly(self, &answer, config, call);
        return;
    }
    fdpass_send(self->socket, &answer, sizeof answer, fd);
    renew_warmth(self, config);
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
    if (read_settings(text, &config, &answer.err) < 0)
        fdpass_send(self->socket, &answer, sizeof answer, -1);
    else if (head.kind != LAUNCHER_KEEP)
        start_one(self, &head, &config, &call);
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
    struct launcher_notice notice = {.pool = *now};
    fdpass_send(self->socket, &notice, sizeof notice, -1);
}

/* Ends with the server, and what was made ahead with it. */
_Noreturn void launcher_main(void)
{
    static char request[LAUNCHER_REQUEST_MAX];
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
            pools_look_at_memory(self.pools);
        ssize_t got = recv(socket, request, sizeof request, MSG_DONTWAIT);
        if (got >= 0 && got < (ssize_t)sizeof(struct launcher_request))
            _exit(0);
        if (got > 0)
            serve_one(&self, request, (size_t)got);
        else if (self.pools)
            pools_tend(self.pools);
        if (self.pools)
            tell_counts(&self);
    }
}
