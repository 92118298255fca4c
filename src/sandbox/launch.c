#include "sandbox/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/mem.h"
#include "base/signals.h"
#include "base/title.h"
#include "engine/engine.h"
#include "proto/fields.h"
#include "proto/frame.h"
#include "proto/protocol.h"
#include "sandbox/keeper.h"
#include "sandbox/kept.h"

#define OWNER_FD 3

static char *copy_or_null(const char *text)
{
    return text ? xstrdup(text) : NULL;
}

static void replace(char **text, const char *with)
{
    free(*text);
    *text = copy_or_null(with);
}

void launch_apply_image(struct sandbox_config *config, const struct image *image)
{
    replace(&config->image, image->reference);
    replace(&config->image_digest, image->digest);
    replace(&config->image_path, image->path);
    replace(&config->language, image->language);
    replace(&config->image_user, image->user);
    replace(&config->image_workdir, image->workdir);
    strv_free(steal_pointer(&config->image_env));
    for (size_t i = 0; image->env && image->env[i]; i++)
        strv_append(&config->image_env, xstrdup(image->env[i]));
}

int launch_find_image(struct sandbox_config *config, struct error *err)
{
    struct image image;
    int result = image_find(config->image, &image, err);
    if (result == 0)
        launch_apply_image(config, &image);
    image_release(&image);
    return result;
}

int launch_prepare(const struct sandbox_config *config, struct error *err)
{
    struct machine_spec spec = sandbox_config_machine(config);
    int result = kept_check(config, err);
    return result == 0 ? engine_find(config->engine)->prepare(&spec, err) : result;
}

int launch_settle(const struct sandbox_config *config, struct error *err)
{
    struct machine_spec spec = sandbox_config_machine(config);
    const struct engine *engine = engine_find(config->engine);
    return engine->settle ? engine->settle(&spec, err) : 0;
}

int launch_keep_warm(const struct sandbox_config *config, int until, struct error *err)
{
    struct machine_spec spec = sandbox_config_machine(config);
    const struct engine *engine = engine_find(config->engine);
    return engine->keep_warm ? engine->keep_warm(&spec, until, err) : 0;
}

/*
 * In a grandchild, so that nobody has to wait for it. It goes on in this program's memory: loading
 * the program and its libraries anew would take as long as all the rest of the keeper's start.
 */
static _Noreturn void become_keeper(int socket, const char *name)
{
    setsid();
    if (fork() != 0)
        _exit(0);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    dup2(null, STDIN_FILENO);
    dup2(null, STDOUT_FILENO);
    dup2(socket, OWNER_FD);
    if (socket == OWNER_FD)
        fcntl(OWNER_FD, F_SETFD, 0);
    close_range(OWNER_FD + 1, ~0U, 0);
    signals_reset();
    cancel_forget();
    cleanup_free char *title = xasprintf("msb keeper %s", name);
    title_set(title);
    _exit(keeper_main(OWNER_FD));
}

static int send_settings(int connection, enum operation operation, const char *text,
                         const struct buf *call, struct error *err)
{
    cleanup_buf struct buf fields = {0}, frames = {0};
    fields_add_text(&fields, TAG_CONFIG, text);
    if (buf_length(&fields) > FRAME_MAX)
        return error_set(err, ERROR_LIMIT, "the sandbox's settings are too long");
    frame_append(&frames, LAUNCH_STREAM, FRAME_OPEN, (uint8_t)operation, buf_data(&fields),
                 buf_length(&fields));
    if (call)
        buf_append(&frames, buf_data(call), buf_length(call));
    ssize_t sent = send(connection, buf_data(&frames), buf_length(&frames), MSG_NOSIGNAL);
    if (sent != (ssize_t)buf_length(&frames))
        return error_set(err, ERROR_IO, "cannot reach the new keeper");
    return 0;
}

int launch_fork(const char *name, struct error *err)
{
    int sockets[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) < 0)
        return error_errno(err, errno, "cannot make a socket pair");
    cleanup_fd int ours = sockets[0], theirs = sockets[1];
    pid_t child = fork();
    if (child == 0)
        become_keeper(theirs, name);
    if (child < 0)
        return error_errno(err, errno, "cannot start a keeper");
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR) {
    }
    return steal_fd(&ours);
}

char *launch_settings(const struct sandbox_config *config)
{
    json_t *json = sandbox_config_to_json(config);
    char *text = json_dumps(json, JSON_COMPACT);
    json_decref(json);
    return text;
}

int launch_begin(int connection, const char *settings, const struct buf *call, struct error *err)
{
    return send_settings(connection, OP_START, settings, call, err);
}

int launch_keeper(const struct sandbox_config *config, const struct buf *call, struct error *err)
{
    cleanup_fd int keeper = launch_fork(config->name, err);
    cleanup_free char *settings = launch_settings(config);
    if (keeper < 0 || launch_begin(keeper, settings, call, err) < 0)
        return -1;
    return steal_fd(&keeper);
}

int launch_ahead(const char *machine_text, struct error *err)
{
    cleanup_fd int keeper = launch_fork("made ahead", err);
    if (keeper < 0 || send_settings(keeper, OP_PREPARE, machine_text, NULL, err) < 0)
        return -1;
    return steal_fd(&keeper);
}

int launch_copy(const struct launch_copy *copy, struct error *err)
{
    struct sandbox_config config;
    sandbox_config_init(&config);
    replace(&config.namespace, copy->namespace);
    replace(&config.name, copy->name);
    replace(&config.fork_of, copy->fork_of);
    replace(&config.snapshot, copy->snapshot);
    /* The keeper finds out about the image with the other settings. */
    replace(&config.image_path, "");
    replace(&config.image_digest, "");
    int result = sandbox_config_check(&config, err);
    if (result == 0)
        result = sandbox_check_name(copy->fork_of ? "sandbox name" : "name of a snapshot",
                                    copy->fork_of ? copy->fork_of : copy->snapshot, err);
    if (result == 0)
        result = launch_keeper(&config, NULL, err);
    sandbox_config_free(&config);
    return result;
}
