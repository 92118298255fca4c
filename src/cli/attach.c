#include "cli/attach.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "cli/command.h"
#include "cli/results.h"
#include "proto/fields.h"
#include "sandbox/collect.h"
#include "sandbox/launch.h"

#define INPUT_PIECE 65536
#define STOP_MS 10000
/* Typed one after the other they leave a command that was joined, as with docker. */
#define CONTROL_P 0x10
#define CONTROL_Q 0x11

struct attachment {
    const struct attach_request *request;
    uv_loop_t loop;
    struct sandbox_client client;
    struct client_call start, work, stop;
    struct records records;
    struct collection answer; /* with json */
    uv_fs_t read;
    char piece[1 + INPUT_PIECE]; /* the first byte is for one that was held back */
    bool holds_key;              /* a Ctrl-P that may begin the keys to leave with */
    bool reading;                /* a read of stdin is under way */
    bool has_fed;                /* some of it was sent */
    bool input_ended;
    uint64_t shown;  /* bytes of output */
    int write_error; /* why our own output failed */
    bool working;
    bool interrupted; /* one Ctrl-C was passed on already */
    bool stopping;    /* the sandbox was told to end; that takes STOP_MS at most */
    uv_signal_t signals[4];
    uv_timer_t patience;
    struct termios before;
    bool raw;
    int exit_code;
    uint64_t began, ready, first_output, done;
    uint64_t joined_at; /* bytes the command had printed before what we get */
    char place[256];    /* where it ran, for --verbose */
};

/* ---- the terminal ---------------------------------------------------------------------------- */

bool attach_has_terminal(void)
{
    return isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
}

void attach_describe_terminal(struct buf *fields)
{
    struct winsize size = {.ws_row = 24, .ws_col = 80};
    ioctl(STDIN_FILENO, TIOCGWINSZ, &size);
    const char *kind = getenv("TERM");
    fields_add_number(fields, TAG_PTY, 1);
    fields_add_number(fields, TAG_ROWS, size.ws_row);
    fields_add_number(fields, TAG_COLS, size.ws_col);
    fields_add_text(fields, TAG_TERM, kind && kind[0] ? kind : "xterm");
}

static void set_raw(struct attachment *a)
{
    if (!a->request->terminal || a->raw || tcgetattr(STDIN_FILENO, &a->before) < 0)
        return;
    struct termios raw = a->before;
    cfmakeraw(&raw);
    a->raw = tcsetattr(STDIN_FILENO, TCSANOW, &raw) == 0;
}

static void restore_terminal(struct attachment *a)
{
    if (a->raw)
        tcsetattr(STDIN_FILENO, TCSANOW, &a->before);
    a->raw = false;
}

/* ---- the end --------------------------------------------------------------------------------- */

static void leave(struct attachment *a, int exit_code)
{
    a->exit_code = exit_code;
    client_close(&a->client);
    uv_stop(&a->loop);
}

static void on_stopped(struct client_call *call, const struct outcome *outcome)
{
    (void)outcome;
    struct attachment *a = call->context;
    if (!a->request->await_removal)
        leave(a, a->exit_code);
}

/* The keeper closes its side when the state folder is gone. */
static void on_connection_closed(struct sandbox_client *client)
{
    struct attachment *a = client->context;
    uv_stop(&a->loop);
}

static void on_out_of_patience(uv_timer_t *timer)
{
    struct attachment *a = timer->data;
    leave(a, a->exit_code);
}

static void finish(struct attachment *a, int exit_code)
{
    static const struct call_handlers handlers = {.end = on_stopped};
    if (a->stopping)
        return;
    a->working = false;
    a->exit_code = exit_code;
    a->done = clock_monotonic_us();
    restore_terminal(a);
    if (!a->request->stop_afterwards) {
        leave(a, exit_code);
        return;
    }
    a->stopping = true;
    uv_timer_start(&a->patience, on_out_of_patience, STOP_MS, 0);
    call_start(&a->client, &a->stop, OP_STOP, NULL, &handlers, a);
}

/* ---- input ----------------------------------------------------------------------------------- */

static void feed(struct attachment *a);

static bool joins(const struct attachment *a)
{
    return a->request->operation == OP_PROCESS_ATTACH;
}

static void send_input(struct attachment *a, const char *bytes, size_t length)
{
    a->has_fed = true;
    call_send(&a->work, bytes, length);
}

/* A Ctrl-P is held back until the next key tells what it is for. */
static void send_keys(struct attachment *a, size_t got)
{
    char *keys = a->holds_key ? a->piece : a->piece + 1;
    size_t length = a->holds_key ? got + 1 : got;
    a->piece[0] = CONTROL_P;
    const char *leave_at = memmem(keys, length, (char[]){CONTROL_P, CONTROL_Q}, 2);
    if (leave_at) {
        send_input(a, keys, (size_t)(leave_at - keys));
        a->input_ended = true;
        call_detach(&a->work);
        return;
    }
    a->holds_key = keys[length - 1] == CONTROL_P;
    send_input(a, keys, length - a->holds_key);
}

/* An empty stdin, such as /dev/null, only watches what was joined and does not end its input. */
static void end_input(struct attachment *a)
{
    a->input_ended = true;
    if (!joins(a) || a->has_fed || isatty(STDIN_FILENO))
        call_send_eof(&a->work);
}

/* Reads happen in libuv's threads: no other way suits files, pipes and terminals alike without
 * changing the mode of descriptors that other processes share. */
static void on_input(uv_fs_t *request)
{
    struct attachment *a = request->data;
    ssize_t got = request->result;
    uv_fs_req_cleanup(request);
    a->reading = false;
    if (!a->working)
        return;
    if (got <= 0)
        end_input(a);
    else if (joins(a) && a->raw)
        send_keys(a, (size_t)got);
    else
        send_input(a, a->piece + 1, (size_t)got);
    feed(a);
}

static void feed(struct attachment *a)
{
    if (a->request->input || a->reading || !a->working || a->input_ended ||
        a->work.room <= a->holds_key)
        return;
    size_t size = (size_t)a->work.room - a->holds_key;
    uv_buf_t room = uv_buf_init(a->piece + 1, (unsigned)(size < INPUT_PIECE ? size : INPUT_PIECE));
    a->read.data = a;
    a->reading = uv_fs_read(&a->loop, &a->read, STDIN_FILENO, &room, 1, -1, on_input) == 0;
}

static void on_room(struct client_call *call)
{
    feed(call->context);
}

/* ---- output ---------------------------------------------------------------------------------- */

static int show(struct attachment *a, enum channel channel, const uint8_t *bytes, size_t length)
{
    if (a->request->json) {
        collect_take(&a->answer, channel, bytes, length);
        return 0;
    }
    if (channel == CHANNEL_RESULTS)
        return results_take(&a->records, bytes, length);
    return file_write_all(channel == CHANNEL_STDERR ? STDERR_FILENO : STDOUT_FILENO, bytes, length);
}

/* Blocks while our own reader is slow: the sandbox gets no credit meanwhile and waits too. */
static void on_data(struct client_call *call, enum channel channel, const uint8_t *bytes,
                    size_t length)
{
    struct attachment *a = call->context;
    if (!a->first_output)
        a->first_output = clock_monotonic_us();
    if (channel != CHANNEL_RESULTS)
        a->shown += length;
    int failed = show(a, channel, bytes, length);
    if (failed && !a->write_error) {
        a->write_error = errno;
        if (joins(a))
            call_detach(call);
        else
            call_cancel(call);
    }
    call_consumed(call, length);
}

/* As for any program whose reader went away or whose disk is full. */
static int unwritable(int reason)
{
    struct error err;
    if (reason == EPIPE)
        return 128 + SIGPIPE;
    error_errno(&err, reason, "cannot write the output");
    return report_error(&err, EXIT_FAILURE);
}

static int judge(struct attachment *a, const struct outcome *outcome)
{
    struct error err = outcome->error;
    uint64_t limit_ms = joins(a) ? outcome->duration_us / 1000 : a->request->timeout_ms;
    switch (outcome->verdict) {
    case VERDICT_DONE:
    case VERDICT_EXITED:
        return a->write_error ? unwritable(a->write_error) : outcome->exit_code;
    case VERDICT_SIGNALED:
        return 128 + outcome->signal;
    case VERDICT_TIMEOUT:
        error_set(&err, ERROR_TIMEOUT, "it took longer than %g s and was ended with all it started",
                  (double)limit_ms / 1000.0);
        error_hint(&err, "give it more time with --timeout");
        return report_error(&err, EXIT_TIMED_OUT);
    case VERDICT_MEMORY:
        error_set(&err, ERROR_LIMIT, "%s was killed: the sandbox had no memory left",
                  outcome->killed ? outcome->killed : "it");
        error_hint(&err, "give it more with --memory");
        return report_error(&err, 128 + SIGKILL);
    case VERDICT_CANCELLED:
        return a->write_error ? unwritable(a->write_error) : 128 + SIGINT;
    default:
        return report_error(&err, outcome->exit_code > 1 ? outcome->exit_code : EXIT_SANDBOX);
    }
}

static void tell_left(const struct attachment *a, const struct outcome *outcome)
{
    uint64_t due = a->joined_at + a->shown;
    if (outcome->verdict == VERDICT_DONE)
        fprintf(stderr, "\nThe command goes on.\n");
    else if (outcome->output_bytes > due)
        fprintf(stderr,
                "msb: %" PRIu64 " bytes of the output were missed: it came faster than it was "
                "read here\n",
                outcome->output_bytes - due);
}

static void print_answer(struct attachment *a, const struct outcome *outcome)
{
    collect_finish(&a->answer);
    json_t *json = collect_json(&a->answer, outcome);
    if (json_dumpf(json, stdout, JSON_INDENT(2)) < 0 || printf("\n") < 0 || fflush(stdout) != 0)
        a->write_error = errno;
    json_decref(json);
}

/* What a limit took away from a command that went on all the same. */
static void tell_limits(const struct attachment *a, const struct outcome *outcome)
{
    if (outcome->output_bytes)
        fprintf(stderr,
                "msb: output cut: %" PRIu64 " of %" PRIu64 " bytes shown (--output-limit)\n",
                a->shown, outcome->output_bytes);
    if (outcome->killed && outcome->verdict != VERDICT_MEMORY)
        fprintf(stderr, "msb: %s was killed: the sandbox had no memory left (--memory)\n",
                outcome->killed);
}

static void on_work_end(struct client_call *call, const struct outcome *outcome)
{
    struct attachment *a = call->context;
    restore_terminal(a);
    if (a->request->json)
        print_answer(a, outcome);
    if (joins(a))
        tell_left(a, outcome);
    else if (a->working)
        tell_limits(a, outcome);
    if (a->working)
        finish(a, judge(a, outcome));
}

/* ---- start ----------------------------------------------------------------------------------- */

struct joined {
    uint64_t offset;
    bool terminal;
};

static int take_joined(void *owner, const struct field *field, struct error *err)
{
    struct joined *joined = owner;
    if (field->tag == TAG_OFFSET)
        return field_number(field, &joined->offset, err);
    return field->tag == TAG_PTY ? field_flag(field, &joined->terminal, err) : 0;
}

static void adopt_size(struct attachment *a)
{
    struct winsize size;
    if (a->working && a->raw && ioctl(STDIN_FILENO, TIOCGWINSZ, &size) == 0)
        call_resize(&a->work, size.ws_row, size.ws_col);
}

static void on_event(struct client_call *call, const uint8_t *fields, uint32_t length)
{
    struct attachment *a = call->context;
    struct joined joined = {0};
    struct error ignored;
    if (!joins(a) || fields_each(fields, length, take_joined, &joined, &ignored) < 0)
        return;
    a->joined_at = joined.offset;
    if (joined.terminal)
        set_raw(a);
    adopt_size(a);
    feed(a);
}

static void start_work(struct attachment *a)
{
    static const struct call_handlers handlers = {
        .data = on_data, .event = on_event, .room = on_room, .end = on_work_end};
    const struct attach_request *request = a->request;
    call_start(&a->client, &a->work, request->operation, request->fields, &handlers, a);
    a->working = true;
    if (request->input)
        call_give(&a->work, request->input, request->input_length);
}

static void note_place(struct attachment *a, const char *status)
{
    json_t *json = json_loads(status ? status : "{}", 0, NULL);
    const char *accelerator = json_string_value(json_object_get(json, "accelerator"));
    const char *engine = json_string_value(json_object_get(json, "engine"));
    const char *kernel = json_string_value(json_object_get(json, "guest_kernel"));
    snprintf(a->place, sizeof a->place, "engine %s, accelerator %s, guest kernel %s",
             engine ? engine : "?", accelerator ? accelerator : "?", kernel ? kernel : "?");
    json_decref(json);
}

static void on_started(struct client_call *call, const struct outcome *outcome)
{
    struct attachment *a = call->context;
    if (outcome->verdict != VERDICT_DONE) {
        a->working = false;
        leave(a, report_error(&outcome->error, EXIT_SANDBOX));
        return;
    }
    a->ready = clock_monotonic_us();
    note_place(a, outcome->status);
    set_raw(a);
    feed(a);
}

static void on_signal(uv_signal_t *watch, int number)
{
    struct attachment *a = watch->data;
    if (number == SIGWINCH) {
        adopt_size(a);
        return;
    }
    if (number == SIGINT && a->working && a->ready && !a->interrupted && !joins(a)) {
        a->interrupted = true;
        call_signal(&a->work, SIGINT);
        return;
    }
    restore_terminal(a);
    a->working = false;
    if (a->ready)
        finish(a, 128 + number);
    else
        leave(a, 128 + number);
}

static void watch_signals(struct attachment *a)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGWINCH};
    for (size_t i = 0; i < 4; i++) {
        uv_signal_init(&a->loop, &a->signals[i]);
        a->signals[i].data = a;
        uv_signal_start(&a->signals[i], on_signal, numbers[i]);
        uv_unref((uv_handle_t *)&a->signals[i]);
    }
}

static void tell_place(const struct attachment *a)
{
    if (!a->request->verbose || !a->ready)
        return;
    fprintf(stderr, "Ran in a sandbox of its own: %s.\n", a->place);
    fprintf(stderr, "Ready after %.0f ms, ", (double)(a->ready - a->began) / 1000.0);
    if (a->first_output)
        fprintf(stderr, "first output after %.0f ms, ",
                (double)(a->first_output - a->began) / 1000.0);
    fprintf(stderr, "done after %.0f ms.\n", (double)(a->done - a->began) / 1000.0);
}

int attach_run(int connection, const struct attach_request *request)
{
    static const struct call_handlers start_handlers = {.end = on_started};
    static struct attachment a;
    struct error err;
    a = (struct attachment){.request = request, .began = clock_monotonic_us()};
    uv_loop_init(&a.loop);
    uv_timer_init(&a.loop, &a.patience);
    a.patience.data = &a;
    if (client_open(&a.client, &a.loop, connection, &err) < 0)
        return report_error(&err, EXIT_SANDBOX);
    a.client.closed = on_connection_closed;
    a.client.context = &a;
    watch_signals(&a);
    if (cancel_requested())
        return 128 + cancel_signal();
    if (request->starting)
        call_join(&a.client, &a.start, LAUNCH_STREAM, &start_handlers, &a);
    if (request->json)
        collect_begin(&a.answer);
    start_work(&a);
    if (!request->starting)
        a.ready = a.began;
    if (!request->starting && !joins(&a)) {
        set_raw(&a);
        feed(&a);
    }
    uv_run(&a.loop, UV_RUN_DEFAULT);
    restore_terminal(&a);
    records_free(&a.records);
    collect_free(&a.answer);
    tell_place(&a);
    return a.exit_code;
}
