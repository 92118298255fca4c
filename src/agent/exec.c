/*
 * Starting a command, and what happens to its process: it runs, its time is over, it ends. It is
 * over in one place, conclude(), when the process has been reaped and what it had written is
 * delivered.
 */
#include "agent/exec.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "agent/attachment.h"
#include "agent/oom.h"
#include "agent/process.h"
#include "agent/settings.h"
#include "agent/spawn.h"
#include "agent/terminal.h"
#include "base/mem.h"
#include "proto/fields.h"

static void end_with_error(struct process *process, int exit_code, const struct error *err)
{
    struct outcome outcome = outcome_error(err);
    outcome.exit_code = exit_code;
    process_end(process, &outcome);
}

static void conclude(void *owner)
{
    struct process *process = owner;
    if (!output_is_settled(&process->outputs[0]) || !output_is_settled(&process->outputs[1]))
        return;
    bool out_of_memory;
    struct outcome outcome = spawn_ended(process->status);
    outcome.killed = oom_find(process->scope, process->pid, &out_of_memory);
    if (out_of_memory)
        outcome.verdict = VERDICT_MEMORY;
    if (process->timed_out)
        outcome.verdict = VERDICT_TIMEOUT;
    process_end(process, &outcome);
}

/* False when the program could not be started and the operation is over. */
static bool check_started(struct process *process)
{
    struct error err;
    int exit_code = 0;
    if (process->report.fd < 0)
        return true;
    int result = spawn_outcome(process->report.fd, process->request.argv[0], process->request.cwd,
                               &exit_code, &err);
    if (result == 1)
        return true;
    if (result < 0) {
        end_with_error(process, exit_code, &err);
        return false;
    }
    loop_watch_stop(&process->report);
    fd_close(process->report.fd);
    process->report.fd = -1;
    if (process->starter) {
        cleanup_buf struct buf fields = {0};
        fields_add_number(&fields, TAG_PID, (uint64_t)process->pid);
        stream_event(process->starter->stream, &fields);
    }
    return true;
}

static void on_report(void *owner, uint32_t events)
{
    (void)events;
    check_started(owner);
}

static void on_exited(void *owner, int status)
{
    struct process *process = owner;
    if (!check_started(process))
        return;
    process->exited = true;
    process->status = status;
    loop_timer_stop(&process->timer);
    process_close_input(process);
    output_settle_both(process->outputs, conclude, process);
}

static void on_timeout(void *owner)
{
    struct process *process = owner;
    process->timed_out = true;
    scope_kill(process->scope);
}

static void on_printed(struct output *output, const uint8_t *bytes, size_t length)
{
    struct process *process = output->tap_owner;
    process->printed += length;
    if (!process->tail)
        return;
    tail_append(process->tail, output->channel, bytes, length);
    attachment_advance_all(process);
}

static void open_output(struct process *process, int number, int fd)
{
    static const enum channel channels[] = {CHANNEL_STDOUT, CHANNEL_STDERR};
    struct output *output = &process->outputs[number];
    output_open(output, fd, channels[number], process->request.pty, process->starter->stream);
    output->tap = on_printed;
    output->tap_owner = process;
}

static pid_t start_on_terminal(struct process *process, struct spawn *spawn, int *report,
                               struct error *err)
{
    struct exec_request *request = &process->request;
    cleanup_fd int master = -1;
    cleanup_fd int slave = -1;
    request->rows = request->rows ? request->rows : 24;
    request->cols = request->cols ? request->cols : 80;
    if (terminal_open(request->rows, request->cols, spawn->account, &master, &slave, err) < 0)
        return -1;
    spawn->terminal = true;
    spawn->fd_count = 3;
    spawn->fds[0] = spawn->fds[1] = spawn->fds[2] = slave;
    pid_t pid = spawn_start(spawn, report, err);
    if (pid < 0)
        return pid;
    process->input = fcntl(master, F_DUPFD_CLOEXEC, 3);
    open_output(process, 0, steal_fd(&master));
    return pid;
}

static pid_t start_on_pipes(struct process *process, struct spawn *spawn, int *report,
                            struct error *err)
{
    struct spawn_pipes pipes;
    if (spawn_pipes_open(&pipes, err) < 0)
        return -1;
    spawn->fd_count = 3;
    memcpy(spawn->fds, pipes.theirs, sizeof pipes.theirs);
    pid_t pid = spawn_start(spawn, report, err);
    for (int i = 0; i < 3; i++)
        close(pipes.theirs[i]);
    process->input = pipes.ours[0];
    open_output(process, 0, pipes.ours[1]);
    open_output(process, 1, pipes.ours[2]);
    return pid;
}

static int start(struct process *process, struct error *err)
{
    struct exec_request *request = &process->request;
    struct account account;
    int result = account_find(request->user, &account, err);
    if (result < 0)
        return result;
    process->scope = scope_make(err);
    if (!process->scope)
        return -1;
    cleanup_strv char **env = environment_build(&account, request->env);
    if (request->pty)
        environment_default(&env, "TERM", "xterm-256color");
    struct spawn spawn = {.argv = request->argv,
                          .env = env,
                          .cwd = request->cwd,
                          .account = &account,
                          .scope = process->scope};
    int report = -1;
    pid_t pid = request->pty ? start_on_terminal(process, &spawn, &report, err)
                             : start_on_pipes(process, &spawn, &report, err);
    if (pid < 0)
        return -1;
    process->pid = pid;
    loop_child_watch(&process->child, pid, on_exited, process);
    loop_watch_start(&process->report, report, EPOLLIN, on_report, process);
    if (request->timeout_ms)
        loop_timer_start(&process->timer, request->timeout_ms, on_timeout, process);
    return 0;
}

static int prepare(struct process *process, const uint8_t *fields, uint32_t length,
                   struct error *err)
{
    int result = exec_request_parse(&process->request, fields, length, err);
    if (result < 0 || !process->request.keep)
        return result;
    process_remember(process);
    return process_check_kept(err);
}

void exec_open(struct stream *stream, const uint8_t *fields, uint32_t length)
{
    struct error err;
    struct process *process = process_make();
    process->starter = attachment_add(process, stream, ATTACHMENT_STARTER);
    if (prepare(process, fields, length, &err) < 0 || start(process, &err) < 0) {
        end_with_error(process, 126, &err);
        return;
    }
    strv_free(process->request.env);
    process->request.env = NULL;
    attachment_open_input(process->starter);
    process_add(process);
}
