/*
 * A command: its process, its scope, its pipes or terminal. It ends in one place, conclude(),
 * when the process has been reaped and what it had written is delivered.
 */
#include "agent/exec.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/exec_request.h"
#include "agent/input.h"
#include "agent/loop.h"
#include "agent/output.h"
#include "agent/settings.h"
#include "agent/spawn.h"
#include "agent/terminal.h"
#include "base/clock.h"
#include "base/mem.h"
#include "proto/fields.h"

struct exec {
    struct stream *stream;
    struct exec_request request;
    struct account account;
    struct scope *scope;
    struct loop_child child;
    pid_t pid;
    struct loop_watch report; /* fd -1: the program runs */
    struct input input;
    struct output outputs[2]; /* a terminal uses the first only */
    struct loop_timer timer;
    uint64_t started_us;
    bool exited;
    bool timed_out;
    int status;
};

static void free_exec(struct exec *exec)
{
    loop_timer_stop(&exec->timer);
    loop_child_forget(&exec->child);
    loop_watch_stop(&exec->report);
    fd_close(exec->report.fd);
    input_close(&exec->input);
    for (int i = 0; i < 2; i++)
        output_abandon(&exec->outputs[i]);
    if (exec->scope)
        scope_release(exec->scope);
    exec_request_free(&exec->request);
    free(exec);
}

static void end_with(struct exec *exec, struct outcome *outcome)
{
    outcome->duration_us = clock_monotonic_us() - exec->started_us;
    stream_end(exec->stream, outcome);
    free_exec(exec);
}

static void end_with_error(struct exec *exec, int exit_code, const struct error *err)
{
    struct outcome outcome = outcome_error(err);
    outcome.exit_code = exit_code;
    end_with(exec, &outcome);
}

static void conclude(void *owner)
{
    struct exec *exec = owner;
    if (!output_is_settled(&exec->outputs[0]) || !output_is_settled(&exec->outputs[1]))
        return;
    struct outcome outcome = spawn_ended(exec->status);
    if (exec->timed_out)
        outcome.verdict = VERDICT_TIMEOUT;
    end_with(exec, &outcome);
}

/* False when the program could not be started and the operation is over. */
static bool check_started(struct exec *exec)
{
    struct error err;
    int exit_code = 0;
    if (exec->report.fd < 0)
        return true;
    int result =
        spawn_outcome(exec->report.fd, exec->request.argv[0], exec->request.cwd, &exit_code, &err);
    if (result == 1)
        return true;
    if (result < 0) {
        end_with_error(exec, exit_code, &err);
        return false;
    }
    loop_watch_stop(&exec->report);
    fd_close(exec->report.fd);
    exec->report.fd = -1;
    cleanup_buf struct buf fields = {0};
    fields_add_number(&fields, TAG_PID, (uint64_t)exec->pid);
    stream_event(exec->stream, &fields);
    return true;
}

static void on_report(void *owner, uint32_t events)
{
    (void)events;
    check_started(owner);
}

static void on_exited(void *owner, int status)
{
    struct exec *exec = owner;
    if (!check_started(exec))
        return;
    exec->exited = true;
    exec->status = status;
    loop_timer_stop(&exec->timer);
    input_discard(&exec->input);
    output_settle_both(exec->outputs, conclude, exec);
}

static void on_timeout(void *owner)
{
    struct exec *exec = owner;
    exec->timed_out = true;
    scope_kill(exec->scope);
}

static void on_data(struct stream *stream, uint8_t channel, const uint8_t *bytes, size_t length)
{
    struct exec *exec = stream->owner;
    if (channel == CHANNEL_STDIN)
        input_write(&exec->input, bytes, length);
    else
        stream_grant(stream, length);
}

static void on_eof(struct stream *stream, uint8_t channel)
{
    struct exec *exec = stream->owner;
    if (channel == CHANNEL_STDIN)
        input_end(&exec->input);
}

static void on_room(struct stream *stream)
{
    struct exec *exec = stream->owner;
    output_resume_both(exec->outputs);
}

static void send_signal(const struct exec *exec, uint64_t number)
{
    if (number == 0 || number >= NSIG || exec->exited)
        return;
    pid_t group = exec->request.pty ? terminal_foreground(exec->outputs[0].watch.fd) : exec->pid;
    if (group <= 0)
        group = exec->pid;
    /* It has no group of its own yet in its first moments. */
    if (kill(-group, (int)number) < 0)
        kill(exec->pid, (int)number);
}

static void cancel(struct exec *exec)
{
    scope_kill(exec->scope);
    struct outcome outcome = {.verdict = VERDICT_CANCELLED};
    end_with(exec, &outcome);
}

static void on_control(struct stream *stream, const uint8_t *fields, uint32_t length)
{
    struct exec *exec = stream->owner;
    struct exec_control control;
    struct error err;
    if (exec_control_parse(&control, fields, length, &err) < 0)
        return;
    if (control.cancel) {
        cancel(exec);
        return;
    }
    if (exec->request.pty && control.rows && control.cols && exec->outputs[0].watch.fd >= 0)
        terminal_resize(exec->outputs[0].watch.fd, control.rows, control.cols);
    send_signal(exec, control.signal);
}

static const struct stream_events events = {
    .data = on_data, .eof = on_eof, .control = on_control, .room = on_room};

static pid_t start_on_terminal(struct exec *exec, struct spawn *spawn, int *report,
                               struct error *err)
{
    const struct exec_request *request = &exec->request;
    cleanup_fd int master = -1;
    cleanup_fd int slave = -1;
    if (terminal_open(request->rows, request->cols, &exec->account, &master, &slave, err) < 0)
        return -1;
    spawn->terminal = true;
    spawn->fd_count = 3;
    spawn->fds[0] = spawn->fds[1] = spawn->fds[2] = slave;
    pid_t pid = spawn_start(spawn, report, err);
    if (pid < 0)
        return pid;
    input_open(&exec->input, fcntl(master, F_DUPFD_CLOEXEC, 3), true, exec->stream);
    output_open(&exec->outputs[0], steal_fd(&master), CHANNEL_STDOUT, true, exec->stream);
    return pid;
}

static pid_t start_on_pipes(struct exec *exec, struct spawn *spawn, int *report, struct error *err)
{
    struct spawn_pipes pipes;
    if (spawn_pipes_open(&pipes, err) < 0)
        return -1;
    spawn->fd_count = 3;
    memcpy(spawn->fds, pipes.theirs, sizeof pipes.theirs);
    pid_t pid = spawn_start(spawn, report, err);
    for (int i = 0; i < 3; i++)
        close(pipes.theirs[i]);
    input_open(&exec->input, pipes.ours[0], false, exec->stream);
    output_open(&exec->outputs[0], pipes.ours[1], CHANNEL_STDOUT, false, exec->stream);
    output_open(&exec->outputs[1], pipes.ours[2], CHANNEL_STDERR, false, exec->stream);
    return pid;
}

static int start(struct exec *exec, struct error *err)
{
    struct exec_request *request = &exec->request;
    int result = account_find(request->user, &exec->account, err);
    if (result < 0)
        return result;
    exec->scope = scope_make(err);
    if (!exec->scope)
        return -1;
    cleanup_strv char **env = environment_build(&exec->account, request->env);
    if (request->pty)
        environment_default(&env, "TERM", "xterm-256color");
    struct spawn spawn = {.argv = request->argv,
                          .env = env,
                          .cwd = request->cwd,
                          .account = &exec->account,
                          .scope = exec->scope};
    int report = -1;
    exec->pid = request->pty ? start_on_terminal(exec, &spawn, &report, err)
                             : start_on_pipes(exec, &spawn, &report, err);
    if (exec->pid < 0)
        return -1;
    loop_child_watch(&exec->child, exec->pid, on_exited, exec);
    loop_watch_start(&exec->report, report, EPOLLIN, on_report, exec);
    if (request->timeout_ms)
        loop_timer_start(&exec->timer, request->timeout_ms, on_timeout, exec);
    return 0;
}

void exec_open(struct stream *stream, const uint8_t *fields, uint32_t length)
{
    struct error err;
    struct exec *exec = xcalloc(1, sizeof *exec);
    exec->stream = stream;
    exec->started_us = clock_monotonic_us();
    exec->report.fd = exec->input.watch.fd = -1;
    exec->outputs[0].watch.fd = exec->outputs[1].watch.fd = -1;
    stream->events = &events;
    stream->owner = exec;
    if (exec_request_parse(&exec->request, fields, length, &err) < 0 || start(exec, &err) < 0)
        end_with_error(exec, 126, &err);
}
