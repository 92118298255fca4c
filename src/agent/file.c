/*
 * A file operation: much like a command, but its program is a piece of ourselves that has become
 * the user. It ends in one place, conclude(), when the process has been reaped and what it had
 * written is delivered.
 */
#include "agent/file.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/exec_request.h"
#include "agent/file_work.h"
#include "agent/input.h"
#include "agent/loop.h"
#include "agent/output.h"
#include "agent/spawn.h"
#include "base/clock.h"
#include "base/json_text.h"
#include "base/mem.h"

struct file {
    struct stream *stream;
    struct file_request request;
    struct loop_child child;
    struct loop_timer timer;
    pid_t pid; /* 0: reaped */
    int report;
    int status_pipe;
    struct input input;
    struct output output;
    uint64_t started_us;
    struct error failure;
};

static void free_file(struct file *file)
{
    loop_child_forget(&file->child);
    loop_timer_stop(&file->timer);
    fd_close(file->report);
    fd_close(file->status_pipe);
    input_close(&file->input);
    output_abandon(&file->output);
    file_request_free(&file->request);
    free(file);
}

static void end_with(struct file *file, struct outcome *outcome)
{
    outcome->duration_us = clock_monotonic_us() - file->started_us;
    stream_end(file->stream, outcome);
    free_file(file);
}

static void end_with_error(struct file *file, struct error *err)
{
    /* Paths are arbitrary bytes, messages are texts. */
    json_text_clean(err->message);
    struct outcome outcome = outcome_error(err);
    end_with(file, &outcome);
}

static void conclude(void *owner)
{
    struct file *file = owner;
    struct outcome done = {0};
    if (file->failure.code)
        end_with_error(file, &file->failure);
    else
        end_with(file, &done);
}

/* The process belongs to the user, so what it says is checked like anything from outside. */
static void read_failure(struct file *file)
{
    struct error *said = &file->failure;
    int exit_code;
    if (spawn_outcome(file->report, "the file operation", file->request.cwd, &exit_code, said) < 0)
        return;
    ssize_t got = read(file->status_pipe, said, sizeof *said);
    said->message[sizeof said->message - 1] = said->hint[sizeof said->hint - 1] = '\0';
    if (got != sizeof *said || said->code <= ERROR_NONE || said->code >= ERROR_CODE_COUNT)
        error_set(said, ERROR_IO, "the process that worked on %.400s was ended from outside",
                  file->request.path);
}

static void on_exited(void *owner, int status)
{
    struct file *file = owner;
    file->pid = 0;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        read_failure(file);
    input_discard(&file->input);
    output_settle(&file->output, conclude, file);
}

static void on_data(struct stream *stream, uint8_t channel, const uint8_t *bytes, size_t length)
{
    struct file *file = stream->owner;
    if (channel == CHANNEL_STDIN)
        input_write(&file->input, bytes, length);
    else
        stream_grant(stream, length);
}

static void on_eof(struct stream *stream, uint8_t channel)
{
    struct file *file = stream->owner;
    if (channel == CHANNEL_STDIN)
        input_end(&file->input);
}

static void on_room(struct stream *stream)
{
    struct file *file = stream->owner;
    output_resume(&file->output);
}

/*
 * A request to end, so that no half-written file stays. It comes before the pipe is closed, which
 * the process would take for the end of the contents.
 */
static void stop(struct file *file, enum verdict verdict)
{
    if (file->pid > 0)
        kill(file->pid, SIGTERM);
    struct outcome outcome = {.verdict = verdict};
    end_with(file, &outcome);
}

static void on_timeout(void *owner)
{
    stop(owner, VERDICT_TIMEOUT);
}

static void on_control(struct stream *stream, const uint8_t *fields, uint32_t length)
{
    struct file *file = stream->owner;
    struct exec_control control;
    struct error err;
    if (exec_control_parse(&control, fields, length, &err) == 0 && control.cancel)
        stop(file, VERDICT_CANCELLED);
}

static const struct stream_events events = {
    .data = on_data, .eof = on_eof, .control = on_control, .room = on_room};

static void attach(struct file *file, const struct spawn_pipes *pipes)
{
    uint8_t operation = file->request.operation;
    if (operation == OP_FILE_READ || operation == OP_FILE_WRITE)
        fcntl(pipes->ours[operation == OP_FILE_READ], F_SETPIPE_SZ, PROTOCOL_WINDOW);
    input_open(&file->input, pipes->ours[0], false, file->stream);
    if (operation != OP_FILE_WRITE && operation != OP_FILE_CHANGES)
        input_discard(&file->input);
    output_open(&file->output, pipes->ours[1],
                operation == OP_FILE_READ ? CHANNEL_STDOUT : CHANNEL_RESULTS, false, file->stream);
    file->status_pipe = pipes->ours[2];
}

/* They start no processes, so one scope does for all of them. */
static struct scope *common_scope(struct error *err)
{
    static struct scope *scope;
    if (!scope)
        scope = scope_make(err);
    return scope;
}

static int start(struct file *file, struct error *err)
{
    struct account account;
    struct spawn_pipes pipes;
    if (account_find(file->request.user, &account, err) < 0)
        return -1;
    struct scope *scope = common_scope(err);
    if (!scope || spawn_pipes_open(&pipes, err) < 0)
        return -1;
    char *name[] = {"the file operation", NULL};
    struct spawn spawn = {.argv = name,
                          .cwd = file->request.cwd,
                          .account = &account,
                          .scope = scope,
                          .fd_count = 3,
                          .work = file_work_run,
                          .owner = &file->request};
    memcpy(spawn.fds, pipes.theirs, sizeof pipes.theirs);
    pid_t pid = spawn_start(&spawn, &file->report, err);
    for (int i = 0; i < 3; i++)
        close(pipes.theirs[i]);
    attach(file, &pipes);
    if (pid < 0)
        return -1;
    file->pid = pid;
    loop_child_watch(&file->child, pid, on_exited, file);
    if (file->request.timeout_ms)
        loop_timer_start(&file->timer, file->request.timeout_ms, on_timeout, file);
    return 0;
}

void file_open(struct stream *stream, const uint8_t *fields, uint32_t length)
{
    struct error err;
    struct file *file = xcalloc(1, sizeof *file);
    file->stream = stream;
    file->started_us = clock_monotonic_us();
    file->report = file->status_pipe = -1;
    file->input.watch.fd = file->output.watch.fd = -1;
    stream->events = &events;
    stream->owner = file;
    if (file_request_parse(&file->request, stream->operation, fields, length, &err) < 0 ||
        start(file, &err) < 0)
        end_with_error(file, &err);
}
