#include "sandbox/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/progress.h"
#include "base/wait.h"
#include "engine/agent_call.h"
#include "proto/fields.h"
#include "proto/outcome.h"
#include "sandbox/egress.h"
#include "sandbox/keeper_internal.h"
#include "sandbox/kept.h"
#include "sandbox/peers.h"
#include "sandbox/publish.h"
#include "sandbox/start_command.h"
#include "sandbox/state.h"
#include "sandbox/tunnel.h"

/* For a killed machine to be gone. */
#define END_MS 5000
#define ADOPT_MS 20000
#define START_STREAM 1
/* The machine's load is measured over at least this time. */
#define LOAD_US 100000

/* ---- before the loop: blocking, cancelled when the owner goes away -------------------------- */

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

int keeper_read_request(struct keeper *keeper, struct buf *in, int timeout_ms, struct error *err)
{
    struct frame frame;
    int size;
    while ((size = frame_decode(in, &frame, err)) == 0) {
        int result = await_owner(keeper, timeout_ms, err);
        if (result < 0)
            return result;
        ssize_t got = recv(keeper->owner, buf_reserve(in, 65536), 65536, 0);
        if (got <= 0)
            return cancel_error(err);
        buf_commit(in, (size_t)got);
    }
    if (size < 0)
        return size;
    uint32_t at = 0;
    struct field field;
    json_t *json = NULL;
    bool is_request = frame.type == FRAME_OPEN && frame.stream == START_STREAM &&
                      (frame.detail == OP_START || frame.detail == OP_PREPARE);
    if (is_request && fields_next(frame.payload, frame.length, &at, &field, err) > 0 &&
        field.tag == TAG_CONFIG)
        json = json_loadb((const char *)field.bytes, field.length, 0, NULL);
    sandbox_config_free(&keeper->config);
    int result = json ? sandbox_config_from_json(json, &keeper->config, err)
                      : error_set(err, ERROR_PROTOCOL, "the keeper got no settings");
    json_decref(json);
    int operation = frame.detail;
    buf_consume(in, (size_t)size);
    return result < 0 ? result : operation;
}

static int write_config(const struct keeper *keeper, struct error *err)
{
    json_t *json = sandbox_config_to_json(&keeper->config);
    cleanup_free char *text = json_dumps(json, JSON_INDENT(2));
    json_decref(json);
    cleanup_free char *path = xasprintf("%s/config.json", keeper->folder);
    return file_write_atomic(path, text, strlen(text), 0600, err);
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

int keeper_adopt(struct keeper *keeper, struct error *err)
{
    const struct sandbox_config *config = &keeper->config;
    uint8_t entropy[64];
    if (getrandom(entropy, sizeof entropy, 0) != sizeof entropy)
        return error_errno(err, errno, "cannot get random bytes");
    cleanup_buf struct buf fields = {0};
    fields_add_bytes(&fields, TAG_ENTROPY, entropy, sizeof entropy);
    fields_add_number(&fields, TAG_REALTIME_US, clock_realtime_us());
    fields_add_text(&fields, TAG_NAME, config->name);
    if (!keeper->is_named)
        fields_add_number(&fields, TAG_REHEARSAL, 1);
    fields_add_number(&fields, TAG_OUTPUT_LIMIT, config->output_limit);
    fields_add_number(&fields, TAG_PROCESSES, config->processes);
    fields_add_number(&fields, TAG_OPEN_FILES, config->open_files);
    if (config->keep)
        fields_add_number(&fields, TAG_KEEP, 1);
    const char *user = config->user ? config->user : config->image_user;
    const char *workdir = config->workdir ? config->workdir : config->image_workdir;
    if (user)
        fields_add_text(&fields, TAG_USER, user);
    if (workdir)
        fields_add_text(&fields, TAG_CWD, workdir);
    for (size_t i = 0; config->image_env && config->image_env[i]; i++)
        fields_add_text(&fields, TAG_ENV, config->image_env[i]);
    egress_add_environment(keeper, &fields);
    for (size_t i = 0; config->env && config->env[i]; i++)
        fields_add_text(&fields, TAG_ENV, config->env[i]);
    for (size_t i = 0; i < config->volume_count; i++) {
        cleanup_free char *text = xasprintf(
            "%zu:%s:%s", i, config->volumes[i].read_only ? "ro" : "rw", config->volumes[i].guest);
        fields_add_text(&fields, TAG_VOLUME, text);
    }
    peers_add_hosts(keeper, &fields);
    int result = agent_call(machine_agent(keeper->machine), OP_ADOPT, &fields, ADOPT_MS, err);
    if (result == 0)
        return 0;
    machine_explain(keeper->machine, err);
    return error_wrap(err, "the sandbox could not be set up");
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
    keeper->is_named = true;
    if (keeper->is_ahead)
        return state_take_name(config->namespace, config->name, &keeper->folder, err);
    keeper->lock = state_create(config->namespace, config->name, &keeper->folder, err);
    return keeper->lock < 0 ? -1 : keeper_listen(keeper, err);
}

static int open_log(struct keeper *keeper, struct error *err)
{
    const char *folder = keeper->config.log_folder;
    if (folder && folder_make(folder, 0700, err) < 0)
        return -1;
    return output_log_open(&keeper->log, folder ? folder : keeper->folder, err);
}

static int start(struct keeper *keeper, struct error *err)
{
    keeper->started_us = clock_realtime_us();
    keeper->began_us = keeper->load.time_us = clock_monotonic_us();
    int result = take_name(keeper, err);
    if (result == 0)
        result = origin_fetch(keeper, err);
    if (result == 0)
        result = kept_open(&keeper->config, &keeper->disk, err);
    if (result == 0)
        result = publish_bind(keeper, err);
    if (result == 0)
        result = write_config(keeper, err);
    if (result == 0)
        result = open_log(keeper, err);
    if (result == 0)
        result = keeper->is_ahead ? ahead_wake(keeper, err) : keeper_start_machine(keeper, err);
    if (result == 0)
        result = keeper_adopt(keeper, err);
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

/* ---- the loop ---------------------------------------------------------------------------- */

/* Between two questions, or since the start; nobody has to keep time for that. */
static void measure_load(struct keeper *keeper, uint64_t now_us, uint64_t cpu_us)
{
    uint64_t passed = now_us - keeper->load.time_us;
    if (passed < LOAD_US)
        return;
    keeper->load.percent = 100.0 * (double)(cpu_us - keeper->load.cpu_us) / (double)passed;
    keeper->load.time_us = now_us;
    keeper->load.cpu_us = cpu_us;
}

static json_t *usage_to_json(struct keeper *keeper)
{
    uint64_t now_us = clock_monotonic_us();
    struct machine_usage usage = machine_usage(keeper->machine);
    usage.cpu_us -= keeper->cpu_us;
    measure_load(keeper, now_us, usage.cpu_us);
    json_t *json =
        json_pack("{s:I, s:I, s:f, s:I}", "uptime_us", (json_int_t)(now_us - keeper->began_us),
                  "cpu_us", (json_int_t)usage.cpu_us, "cpu_percent", keeper->load.percent,
                  "host_memory", (json_int_t)usage.memory_bytes);
    if (usage.knows_disk)
        json_object_set_new(json, "disk_bytes", json_integer((json_int_t)usage.disk_bytes));
    return json;
}

char *keeper_status(struct keeper *keeper)
{
    json_t *json = sandbox_config_to_json(&keeper->config);
    json_t *more = json_pack(
        "{s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I}", "state",
        keeper->paused ? "paused" : "running", "accelerator", machine_accelerator(keeper->machine),
        "guest_kernel", machine_kernel(keeper->machine), "started_us",
        (json_int_t)keeper->started_us, "keeper_pid", (json_int_t)getpid(), "machine_pid",
        (json_int_t)machine_process(keeper->machine), "operations", (json_int_t)keeper->active,
        "network_received", (json_int_t)keeper->network.received, "network_sent",
        (json_int_t)keeper->network.sent);
    json_object_update_new(json, more);
    json_object_update_new(json, usage_to_json(keeper));
    start_command_describe(keeper, json);
    char *text = json_dumps(json, JSON_COMPACT);
    json_decref(json);
    return text;
}

static void close_handle(uv_handle_t *handle, void *context)
{
    (void)context;
    if (!uv_is_closing(handle) && handle->type != UV_NAMED_PIPE)
        uv_close(handle, NULL);
}

/* Another sandbox may have the name when this returns. */
static void release_name(struct keeper *keeper)
{
    output_log_close(&keeper->log);
    fd_close(keeper->listening);
    publish_release(keeper);
    if (keeper->folder)
        state_remove(keeper->folder, keeper->lock);
    free(keeper->folder);
    keeper->folder = NULL;
}

/*
 * Returns the machine's memory and disk, which takes its time. The thread on the side goes by the
 * machine's process id, which must stay its own meanwhile.
 */
static void release_machine(struct keeper *keeper)
{
    if (keeper->is_enclosing)
        uv_thread_join(&keeper->enclosing);
    machine_free(keeper->machine);
    free(steal_pointer(&keeper->disk));
    sandbox_config_free(&keeper->config);
}

void keeper_kill_machine(struct keeper *keeper)
{
    save_break_off(keeper);
    machine_kill(keeper->machine);
}

/* Whoever has the name next gets the disk too: nothing may be on its way there any more. */
static void await_end_of_writing(const struct keeper *keeper)
{
    struct error ignored;
    int gone = machine_exit(keeper->machine);
    if (keeper->disk)
        wait_readable(&gone, 1, clock_monotonic_ms() + END_MS, "the machine", &ignored);
}

void keeper_end(struct keeper *keeper, enum error_code code, const char *reason)
{
    if (keeper->ending)
        return;
    keeper->ending = true;
    keeper_kill_machine(keeper);
    finish_answer(keeper);
    if (keeper->finish.begun) {
        code = keeper->finish.code;
        reason = keeper->finish.reason;
    }
    struct error err;
    error_set(&err, code, "the sandbox ended: %s", reason);
    log_info("%s", err.message);
    route_end_all(keeper, &err);
    tunnel_break_all(keeper);
    link_close(&keeper->agent);
    uv_walk(&keeper->loop, close_handle, NULL);
    await_end_of_writing(keeper);
    release_name(keeper);
    /* Clients see the end of the connection last: then the name is free again. */
    for (struct client *client = keeper->clients, *next; client; client = next) {
        next = client->next;
        link_finish(&client->link);
    }
}

static void on_idle(uv_timer_t *timer)
{
    struct keeper *keeper = timer->data;
    if (keeper->active)
        keeper_touch(keeper);
    else
        finish_open(keeper, ERROR_TIMEOUT, "nobody used it for its idle time");
}

static void on_lifetime(uv_timer_t *timer)
{
    finish_open(timer->data, ERROR_TIMEOUT, "its lifetime is over");
}

void keeper_touch(struct keeper *keeper)
{
    if (keeper->config.idle_ms && !keeper->ending)
        uv_timer_start(&keeper->idle, on_idle, keeper->config.idle_ms, 0);
}

static void on_connection(uv_poll_t *listener, int status, int events)
{
    (void)status, (void)events;
    struct keeper *keeper = listener->data;
    int fd = accept4(keeper->listening, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0)
        client_add(keeper, fd, false, NULL);
}

static void on_machine_exit(uv_poll_t *watch, int status, int events)
{
    (void)status, (void)events;
    keeper_end(watch->data, ERROR_UNAVAILABLE, "its machine ended");
}

static void on_terminate(uv_signal_t *watch, int number)
{
    (void)number;
    finish_open(watch->data, ERROR_UNAVAILABLE, "its keeper was told to end");
}

static int watch_everything(struct keeper *keeper, struct error *err)
{
    uv_loop_t *loop = &keeper->loop;
    int result = link_open(&keeper->agent, loop, dup(machine_agent(keeper->machine)),
                           &route_agent_handlers, keeper, err);
    if (result < 0)
        return result;
    uv_poll_init(loop, &keeper->listener, keeper->listening);
    uv_poll_init(loop, &keeper->machine_exit, machine_exit(keeper->machine));
    uv_timer_init(loop, &keeper->idle);
    uv_timer_init(loop, &keeper->lifetime);
    uv_signal_init(loop, &keeper->terminate);
    keeper->listener.data = keeper->machine_exit.data = keeper;
    keeper->idle.data = keeper->lifetime.data = keeper->terminate.data = keeper;
    uv_poll_start(&keeper->listener, UV_READABLE, on_connection);
    uv_poll_start(&keeper->machine_exit, UV_READABLE, on_machine_exit);
    uv_signal_start(&keeper->terminate, on_terminate, SIGTERM);
    if (keeper->config.lifetime_ms)
        uv_timer_start(&keeper->lifetime, on_lifetime, keeper->config.lifetime_ms, 0);
    keeper_touch(keeper);
    save_init(keeper);
    result = publish_start(keeper, err);
    if (result == 0)
        result = egress_start(keeper, err);
    return result < 0 ? result : peers_start(keeper, err);
}

/* The owner hears of the start when the command runs. */
static void on_command_begun(struct keeper *keeper, const struct error *failure)
{
    client_answer_owner(keeper, START_STREAM, failure);
    if (failure)
        keeper_end(keeper, failure->code, failure->message);
}

/* What can wait until the owner has been answered. A keeper goes on for long with much less memory
 * than its start took. */
static void enclose(void *machine)
{
    machine_enclose(machine);
    malloc_trim(0);
}

static void greet_owner(struct keeper *keeper, const struct buf *early)
{
    cleanup_free char *status = keeper_status(keeper);
    if (!keeper->config.start)
        keeper_answer_owner(keeper, &(struct outcome){.status = status});
    if (!keeper->is_ahead)
        keeper->is_enclosing = uv_thread_create(&keeper->enclosing, enclose, keeper->machine) == 0;
    client_add(keeper, keeper->owner, true, early);
    if (keeper->config.start && !keeper->ending)
        start_command_run(keeper, on_command_begun);
}

int keeper_main(int owner_socket)
{
    struct error err;
    static struct keeper the_keeper = {.lock = -1, .log.fd = -1, .listening = -1};
    struct keeper *keeper = &the_keeper;
    cleanup_buf struct buf early = {0};

    prctl(PR_SET_NAME, "msb-keeper");
    signal(SIGPIPE, SIG_IGN);
    umask(077);
    log_set_speaker("msb keeper");
    progress_silence();
    cancel_install();
    keeper->owner = owner_socket;
    fcntl(keeper->owner, F_SETFD, FD_CLOEXEC);

    int result = keeper_read_request(keeper, &early, -1, &err);
    cancel_with_peer(keeper->owner);
    if (result == OP_PREPARE)
        result = ahead_prepare(keeper, &early, &err);
    if (result == OP_START)
        result = start(keeper, &err);
    cancel_with_peer(-1);
    uv_loop_init(&keeper->loop);
    if (result == 0)
        result = watch_everything(keeper, &err);
    if (result < 0) {
        struct outcome failure = outcome_error(&err);
        keeper_answer_owner(keeper, &failure);
        release_name(keeper);
        release_machine(keeper);
        return 1;
    }
    greet_owner(keeper, &early);
    /* Not to the loop's own end: it would wait for a name server that does not answer. */
    while (!(keeper->ending && !keeper->clients) && uv_run(&keeper->loop, UV_RUN_ONCE)) {
    }
    release_machine(keeper);
    uv_loop_close(&keeper->loop);
    return 0;
}
