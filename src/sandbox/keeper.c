#include "sandbox/keeper.h"

#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/progress.h"
#include "base/wait.h"
#include "proto/outcome.h"
#include "sandbox/egress.h"
#include "sandbox/keeper_internal.h"
#include "sandbox/peers.h"
#include "sandbox/publish.h"
#include "sandbox/start_command.h"
#include "sandbox/state.h"
#include "sandbox/tunnel.h"

/* For a killed machine to be gone. */
#define END_MS 5000

static void close_handle(uv_handle_t *handle, void *context)
{
    (void)context;
    bool is_of_link = handle->type == UV_NAMED_PIPE || handle->type == UV_PREPARE;
    if (!uv_is_closing(handle) && !is_of_link)
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

void keeper_lost_machine(struct keeper *keeper)
{
    struct error err;
    error_set(&err, ERROR_UNAVAILABLE, "its machine ended");
    if (!keeper->ending)
        machine_explain(keeper->machine, &err);
    keeper_end(keeper, ERROR_UNAVAILABLE, err.message);
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
        client_add(keeper, fd);
}

static void on_machine_exit(uv_poll_t *watch, int status, int events)
{
    (void)status, (void)events;
    keeper_lost_machine(watch->data);
}

static void on_console(uv_poll_t *watch, int status, int events)
{
    (void)status, (void)events;
    machine_hear(((struct keeper *)watch->data)->machine);
}

static void on_terminate(uv_signal_t *watch, int number)
{
    (void)number;
    finish_open(watch->data, ERROR_UNAVAILABLE, "its keeper was told to end");
}

int keeper_make_loop(struct keeper *keeper, struct error *err)
{
    uv_loop_t *loop = &keeper->loop;
    uv_loop_init(loop);
    int result = link_open(&keeper->agent, loop, dup(machine_agent(keeper->machine)),
                           &route_agent_handlers, keeper, err);
    if (result < 0)
        return result;
    uv_poll_init(loop, &keeper->listener, keeper->listening);
    uv_poll_init(loop, &keeper->machine_exit, machine_exit(keeper->machine));
    if (machine_console(keeper->machine) >= 0) {
        uv_poll_init(loop, &keeper->console, machine_console(keeper->machine));
        keeper->console.data = keeper;
        uv_poll_start(&keeper->console, UV_READABLE, on_console);
    }
    uv_timer_init(loop, &keeper->idle);
    uv_timer_init(loop, &keeper->lifetime);
    uv_signal_init(loop, &keeper->terminate);
    keeper->listener.data = keeper->machine_exit.data = keeper;
    keeper->idle.data = keeper->lifetime.data = keeper->terminate.data = keeper;
    uv_poll_start(&keeper->listener, UV_READABLE, on_connection);
    uv_poll_start(&keeper->machine_exit, UV_READABLE, on_machine_exit);
    save_init(keeper);
    return 0;
}

int keeper_watch(struct keeper *keeper, struct error *err)
{
    uv_update_time(&keeper->loop);
    uv_signal_start(&keeper->terminate, on_terminate, SIGTERM);
    if (keeper->config.lifetime_ms)
        uv_timer_start(&keeper->lifetime, on_lifetime, keeper->config.lifetime_ms, 0);
    keeper_touch(keeper);
    int result = publish_start(keeper, err);
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
    cleanup_free char *report = keeper_start_report(keeper);
    if (!keeper->config.start)
        keeper_answer_owner(keeper, &(struct outcome){.status = report});
    if (!keeper->is_ahead)
        keeper->is_enclosing = uv_thread_create(&keeper->enclosing, enclose, keeper->machine) == 0;
    client_preload_owner(keeper, early);
    link_preload(&keeper->agent, &keeper->answers);
    buf_free(&keeper->answers);
    if (keeper->config.start && !keeper->ending)
        start_command_run(keeper, on_command_begun);
}

static void become_keeper(struct keeper *keeper, int owner_socket)
{
    prctl(PR_SET_NAME, "msb-keeper");
    signal(SIGPIPE, SIG_IGN);
    umask(077);
    log_set_speaker("msb keeper");
    progress_silence();
    cancel_install();
    keeper->owner = owner_socket;
    fcntl(keeper->owner, F_SETFD, FD_CLOEXEC);
}

/* Cancelled when the owner goes away. */
static int take_request(struct keeper *keeper, struct buf *early, struct error *err)
{
    int result = keeper_read_request(keeper, early, err);
    cancel_with_peer(keeper->owner);
    if (result == OP_PREPARE)
        result = ahead_prepare(keeper, early, err);
    if (result == OP_START)
        result = keeper_start(keeper, early, err);
    cancel_with_peer(-1);
    return result;
}

int keeper_main(int owner_socket)
{
    struct error err;
    static struct keeper the_keeper = {.lock = -1, .log.fd = -1, .listening = -1};
    struct keeper *keeper = &the_keeper;
    cleanup_buf struct buf early = {0};
    become_keeper(keeper, owner_socket);
    int result = take_request(keeper, &early, &err);
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
