#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "engine/agent_call.h"
#include "proto/fields.h"
#include "proto/outcome.h"
#include "sandbox/egress.h"
#include "sandbox/keeper_internal.h"
#include "sandbox/kept.h"
#include "sandbox/peers.h"
#include "sandbox/publish.h"
#include "sandbox/state.h"

#define ADOPT_MS 20000
#define OWNER_PIECE 16384

/* Waits until the owner says something; nobody else matters while there is no sandbox. */
static int await_owner(const struct keeper *keeper, int timeout_ms, struct error *err)
{
    struct pollfd wait[] = {
        {.fd = keeper->owner, .events = POLLIN},
        {.fd = keeper->machine ? machine_exit(keeper->machine) : -1, .events = POLLIN},
        {.fd = cancel_fd(), .events = POLLIN},
    };
    int ready = poll(wait, sizeof wait / sizeof wait[0], timeout_ms);
    if (ready == 0)
        return error_set(err, ERROR_TIMEOUT, "the keeper got no settings");
    if (ready < 0 || wait[2].revents)
        return cancel_error(err);
    return wait[1].revents ? error_set(err, ERROR_UNAVAILABLE, "the machine ended") : 0;
}

int keeper_hear_owner(const struct keeper *keeper, struct buf *in, int timeout_ms,
                      struct error *err)
{
    int result = await_owner(keeper, timeout_ms, err);
    if (result < 0)
        return result;
    ssize_t got = recv(keeper->owner, buf_reserve(in, OWNER_PIECE), OWNER_PIECE, 0);
    if (got <= 0)
        return cancel_error(err);
    buf_commit(in, (size_t)got);
    return 0;
}

static json_t *read_config(const struct frame *frame)
{
    uint32_t at = 0;
    struct field field;
    struct error ignored;
    bool is_request = frame->type == FRAME_OPEN && frame->stream == START_STREAM &&
                      (frame->detail == OP_START || frame->detail == OP_PREPARE);
    if (!is_request || fields_next(frame->payload, frame->length, &at, &field, &ignored) <= 0 ||
        field.tag != TAG_CONFIG)
        return NULL;
    return json_loadb((const char *)field.bytes, field.length, 0, NULL);
}

int keeper_read_request(struct keeper *keeper, struct buf *in, struct error *err)
{
    struct frame frame;
    int size;
    while ((size = frame_decode(in, &frame, err)) == 0) {
        if (keeper_hear_owner(keeper, in, -1, err) < 0)
            return -1;
    }
    if (size < 0)
        return size;
    json_t *json = read_config(&frame);
    sandbox_config_free(&keeper->config);
    int result = json ? sandbox_config_from_json(json, &keeper->config, err)
                      : error_set(err, ERROR_PROTOCOL, "the keeper got no settings");
    json_decref(json);
    int operation = frame.detail;
    buf_consume(in, (size_t)size);
    return result < 0 ? result : operation;
}

/* Whoever reads it finds nothing or all: it is written at once. */
static int write_config(const struct keeper *keeper, const char *text, struct error *err)
{
    cleanup_free char *path = xasprintf("%s/config.json", keeper->folder);
    cleanup_fd int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || file_write_all(fd, text, strlen(text)) < 0)
        return error_errno(err, errno, "cannot write %s", path);
    return 0;
}

static int open_log(struct keeper *keeper, struct error *err)
{
    const char *folder = keeper->config.log_folder;
    if (folder && folder_make(folder, 0700, err) < 0)
        return -1;
    return output_log_open(&keeper->log, folder ? folder : keeper->folder, err);
}

int keeper_create_files(struct keeper *keeper, struct error *err)
{
    int result = write_config(keeper, "", err);
    if (result == 0)
        result = open_log(keeper, err);
    output_log_close(&keeper->log);
    return result;
}

static int write_files(struct keeper *keeper, struct error *err)
{
    json_t *json = sandbox_config_to_json(&keeper->config);
    cleanup_free char *text = json_dumps(json, JSON_INDENT(2));
    json_decref(json);
    int result = write_config(keeper, text, err);
    return result == 0 ? open_log(keeper, err) : result;
}

/* From here on complaints go to a file: the terminal belongs to the owner. */
static void redirect_complaints(const struct keeper *keeper)
{
    cleanup_free char *path = xasprintf("%s/keeper.log", keeper->folder);
    cleanup_fd int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd >= 0)
        dup2(fd, STDERR_FILENO);
    log_set_writer(NULL);
}

int keeper_start_machine(struct keeper *keeper, struct error *err)
{
    const struct sandbox_config *config = &keeper->config;
    cleanup_free struct machine_volume *volumes = xcalloc(config->volume_count, sizeof *volumes);
    for (size_t i = 0; i < config->volume_count; i++)
        volumes[i] = (struct machine_volume){.host_path = config->volumes[i].host,
                                             .guest_path = config->volumes[i].guest,
                                             .read_only = config->volumes[i].read_only};
    struct machine_spec spec = sandbox_config_machine(config);
    spec.volumes = volumes;
    spec.volume_count = config->volume_count;
    spec.disk = keeper->disk;
    spec.from = keeper->origin;
    const struct engine *engine = engine_find(config->engine);
    if (!engine)
        return error_set(err, ERROR_INVALID, "there is no engine %s", config->engine);
    return engine->start(&spec, keeper->folder, &keeper->machine, err);
}

/* Of the image, then of the keeper, then of whoever started the sandbox: later ones win. */
static void add_environment(const struct keeper *keeper, struct buf *fields)
{
    const struct sandbox_config *config = &keeper->config;
    for (size_t i = 0; config->image_env && config->image_env[i]; i++)
        fields_add_text(fields, TAG_ENV, config->image_env[i]);
    egress_add_environment(keeper, fields);
    for (size_t i = 0; config->env && config->env[i]; i++)
        fields_add_text(fields, TAG_ENV, config->env[i]);
}

static void add_volumes(const struct keeper *keeper, struct buf *fields)
{
    const struct sandbox_config *config = &keeper->config;
    for (size_t i = 0; i < config->volume_count; i++) {
        char folder[24] = "";
        if (!machine_shares_root(keeper->machine))
            snprintf(folder, sizeof folder, "%zu", i);
        cleanup_free char *text =
            xasprintf("%s:%s:%s", folder, config->volumes[i].read_only ? "ro" : "rw",
                      config->volumes[i].guest);
        fields_add_text(fields, TAG_VOLUME, text);
    }
}

static void add_settings(const struct keeper *keeper, struct buf *fields)
{
    const struct sandbox_config *config = &keeper->config;
    const char *user = config->user ? config->user : config->image_user;
    const char *workdir = config->workdir ? config->workdir : config->image_workdir;
    fields_add_text(fields, TAG_NAME, config->name);
    if (!keeper->is_named)
        fields_add_number(fields, TAG_REHEARSAL, 1);
    fields_add_number(fields, TAG_OUTPUT_LIMIT, config->output_limit);
    fields_add_number(fields, TAG_PROCESSES, config->processes);
    fields_add_number(fields, TAG_OPEN_FILES, config->open_files);
    if (config->keep)
        fields_add_number(fields, TAG_KEEP, 1);
    if (user)
        fields_add_text(fields, TAG_USER, user);
    if (workdir)
        fields_add_text(fields, TAG_CWD, workdir);
    add_environment(keeper, fields);
    add_volumes(keeper, fields);
    peers_add_hosts(keeper, fields);
}

static int begin_adoption(struct keeper *keeper, struct error *err)
{
    uint8_t entropy[64];
    if (getrandom(entropy, sizeof entropy, 0) != sizeof entropy)
        return error_errno(err, errno, "cannot get random bytes");
    cleanup_buf struct buf fields = {0};
    fields_add_bytes(&fields, TAG_ENTROPY, entropy, sizeof entropy);
    fields_add_number(&fields, TAG_REALTIME_US, clock_realtime_us());
    add_settings(keeper, &fields);
    return agent_call_begin(machine_agent(keeper->machine), OP_ADOPT, &fields, NULL, err);
}

static int end_adoption(struct keeper *keeper, struct error *err)
{
    if (agent_call_end(machine_agent(keeper->machine), ADOPT_MS, &keeper->answers, err) == 0)
        return 0;
    bool is_mute = err->code == ERROR_TIMEOUT || err->code == ERROR_UNAVAILABLE;
    machine_explain(keeper->machine, err);
    if (is_mute && !keeper->origin && machine_distrust(keeper->machine))
        error_hint(err, "try again: what it starts from will be made anew");
    return error_wrap(err, "the sandbox could not be set up");
}

int keeper_adopt(struct keeper *keeper, struct error *err)
{
    int result = begin_adoption(keeper, err);
    return result < 0 ? result : end_adoption(keeper, err);
}

/* In the folder that is ours by now. */
int keeper_listen(struct keeper *keeper, struct error *err)
{
    redirect_complaints(keeper);
    keeper->listening = state_listen(keeper->folder, err);
    return keeper->listening < 0 ? -1 : 0;
}

static int take_name(struct keeper *keeper, struct error *err)
{
    const struct sandbox_config *config = &keeper->config;
    if (keeper->is_ahead)
        return state_take_name(config->namespace, config->name, &keeper->folder, err);
    keeper->lock = state_create(config->namespace, config->name, &keeper->folder, err);
    return keeper->lock < 0 ? -1 : keeper_listen(keeper, err);
}

/* The name, and what is on the host under it. */
static int settle_down(struct keeper *keeper, struct error *err)
{
    int result = take_name(keeper, err);
    timing_step(&keeper->timing, "name");
    if (result == 0)
        result = origin_fetch(keeper, err);
    if (result == 0)
        result = kept_open(&keeper->config, &keeper->disk, err);
    if (result == 0)
        result = publish_bind(keeper, err);
    timing_step(&keeper->timing, "disks and ports");
    return result;
}

/* One that was made ahead goes on by now. */
static int begin_machine(struct keeper *keeper, struct error *err)
{
    int result = keeper->is_ahead ? 0 : keeper_start_machine(keeper, err);
    if (result == 0)
        result = begin_adoption(keeper, err);
    /* The kernel likes to put whom we wake behind us on the same processor: the machine first. */
    if (keeper->is_ahead)
        sched_yield();
    else if (result == 0)
        result = keeper_make_loop(keeper, err);
    timing_step(&keeper->timing, "machine");
    return result;
}

/* The call that came along follows the settings at once, while they are being taken over. */
static int begin_service(struct keeper *keeper, struct buf *early, struct error *err)
{
    int result = keeper_watch(keeper, err);
    timing_step(&keeper->timing, "event loop");
    if (result < 0)
        return result;
    client_add_owner(keeper, early);
    link_flush(&keeper->agent);
    result = write_files(keeper, err);
    timing_step(&keeper->timing, "settings and log");
    return result;
}

/* A machine that was made ahead needs nothing of the host to take its settings over; if the name is
 * taken, or a port, it is lost. A call that came along waits for both. */
int keeper_start(struct keeper *keeper, struct buf *early, struct error *err)
{
    keeper->is_named = true;
    keeper->started_us = clock_realtime_us();
    keeper->began_us = keeper->load.time_us = clock_monotonic_us();
    timing_begin(&keeper->timing);
    int result = keeper->is_ahead ? begin_machine(keeper, err) : 0;
    if (result == 0)
        result = settle_down(keeper, err);
    if (result == 0 && !keeper->is_ahead)
        result = begin_machine(keeper, err);
    if (result == 0)
        result = begin_service(keeper, early, err);
    if (result == 0)
        result = end_adoption(keeper, err);
    timing_step(&keeper->timing, "adoption");
    origin_release(keeper);
    return result;
}

void keeper_answer_owner(const struct keeper *keeper, const struct outcome *outcome)
{
    cleanup_buf struct buf frames = {0};
    outcome_append(&frames, START_STREAM, outcome);
    if (send(keeper->owner, buf_data(&frames), buf_length(&frames), MSG_NOSIGNAL) < 0)
        log_info("the owner did not wait for the start");
}
