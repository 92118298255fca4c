#include "agent/process_operations.h"

#include <signal.h>
#include <string.h>

#include "agent/attachment.h"
#include "agent/exec_request.h"
#include "agent/process.h"
#include "base/json_text.h"
#include "base/mem.h"
#include "proto/fields.h"
#include "proto/wire.h"

/* What a list tells of a command's arguments, and of any other text of it. */
#define TEXT_MAX 1024u

struct request {
    uint64_t pid;
    uint64_t signal;
    bool close;
};

static int take_field(void *owner, const struct field *field, struct error *err)
{
    struct request *request = owner;
    switch (field->tag) {
    case TAG_PID:
        return field_number(field, &request->pid, err);
    case TAG_SIGNAL:
        return field_number(field, &request->signal, err);
    case TAG_CLOSE:
        return field_flag(field, &request->close, err);
    default:
        return 0;
    }
}

/* ---- the list -------------------------------------------------------------------------------- */

/* Made record by record, as fast as they are read: never more than one is held. */
struct listing {
    uint64_t told; /* serial number of the last one */
    struct buf record;
};

static size_t append_text(struct buf *out, const char *text, size_t most)
{
    size_t length = strnlen(text, most);
    json_text_append(out, text, length);
    return length;
}

static void append_arguments(struct buf *out, char *const *argv)
{
    size_t left = TEXT_MAX;
    buf_append_text(out, "\"args\":[");
    for (size_t i = 0; argv[i] && left > 0; i++) {
        if (i > 0)
            buf_append_text(out, ",");
        left -= append_text(out, argv[i], left);
        left -= left > 0;
    }
    buf_append_text(out, "],");
}

static void append_state(struct buf *out, const struct process *process)
{
    const struct outcome *outcome = &process->outcome;
    if (!process->ended) {
        buf_append_text(out, "\"state\":\"running\"}");
        return;
    }
    buf_printf(out,
               "\"state\":\"ended\",\"verdict\":\"%s\",\"exit_code\":%d,\"signal\":%d,"
               "\"duration_us\":%llu}",
               verdict_name(outcome->verdict), outcome->exit_code, outcome->signal,
               (unsigned long long)outcome->duration_us);
}

static unsigned count_clients(const struct process *process)
{
    unsigned count = 0;
    for (const struct attachment *at = process->attachments; at; at = at->next)
        count += at->kind != ATTACHMENT_FEEDER;
    return count;
}

static void describe(struct buf *out, const struct process *process)
{
    const struct exec_request *request = &process->request;
    buf_printf(out, "{\"pid\":%d,", process->pid);
    append_arguments(out, request->argv);
    buf_append_text(out, "\"cwd\":");
    append_text(out, request->cwd, TEXT_MAX);
    buf_append_text(out, ",\"user\":");
    append_text(out, request->user, TEXT_MAX);
    buf_printf(out, ",\"terminal\":%s,", request->pty ? "true" : "false");
    if (request->pty)
        buf_printf(out, "\"rows\":%u,\"cols\":%u,", request->rows, request->cols);
    buf_printf(out, "\"started_us\":%llu,\"kept\":%s,\"clients\":%u,\"output_bytes\":%llu,",
               (unsigned long long)process->began_realtime_us, request->keep ? "true" : "false",
               count_clients(process), (unsigned long long)process->printed);
    append_state(out, process);
}

static bool next_record(struct listing *listing)
{
    const struct process *process = process_after(listing->told);
    if (!process)
        return false;
    cleanup_buf struct buf text = {0};
    uint8_t length[4];
    listing->told = process->serial;
    describe(&text, process);
    wire_put32(length, (uint32_t)buf_length(&text));
    buf_append(&listing->record, length, sizeof length);
    buf_append(&listing->record, buf_data(&text), buf_length(&text));
    return true;
}

static void end_listing(struct stream *stream, enum verdict verdict)
{
    struct listing *listing = stream->owner;
    struct outcome outcome = {.verdict = verdict};
    buf_free(&listing->record);
    free(listing);
    stream_end(stream, &outcome);
}

static void advance_listing(struct stream *stream)
{
    struct listing *listing = stream->owner;
    while (buf_length(&listing->record) > 0 || next_record(listing)) {
        size_t length = buf_length(&listing->record);
        size_t room = stream_room(stream);
        if (room == 0)
            return;
        length = room < length ? room : length;
        stream_send(stream, CHANNEL_RESULTS, buf_data(&listing->record), length);
        buf_consume(&listing->record, length);
    }
    end_listing(stream, VERDICT_DONE);
}

static void control_listing(struct stream *stream, const uint8_t *fields, uint32_t length)
{
    struct exec_control control;
    struct error err;
    if (exec_control_parse(&control, fields, length, &err) == 0 && control.cancel)
        end_listing(stream, VERDICT_CANCELLED);
}

static const struct stream_events listing_events = {.control = control_listing,
                                                    .room = advance_listing};

void process_list_open(struct stream *stream, const uint8_t *fields, uint32_t length)
{
    (void)fields, (void)length;
    stream->events = &listing_events;
    stream->owner = xcalloc(1, sizeof(struct listing));
    advance_listing(stream);
}

/* ---- the others ------------------------------------------------------------------------------ */

static void tell_attached(const struct process *process, const struct attachment *viewer)
{
    cleanup_buf struct buf fields = {0};
    fields_add_number(&fields, TAG_PID, (uint64_t)process->pid);
    fields_add_number(&fields, TAG_OFFSET, viewer->position);
    if (process->request.pty) {
        fields_add_number(&fields, TAG_PTY, 1);
        fields_add_number(&fields, TAG_ROWS, process->request.rows);
        fields_add_number(&fields, TAG_COLS, process->request.cols);
    }
    stream_event(viewer->stream, &fields);
}

void process_attach_open(struct stream *stream, const uint8_t *fields, uint32_t length)
{
    struct error err;
    struct request request = {0};
    struct process *process = NULL;
    if (fields_each(fields, length, take_field, &request, &err) == 0)
        process = process_find(request.pid, &err);
    if (!process) {
        stream_end_error(stream, &err);
        return;
    }
    process_remember(process);
    struct attachment *viewer = attachment_add(process, stream, ATTACHMENT_VIEWER);
    attachment_open_input(viewer);
    viewer->position = tail_resume(process->tail, 0, process->request.pty);
    tell_attached(process, viewer);
    attachment_advance_all(process);
    process_left(process);
}

void process_signal_open(struct stream *stream, const uint8_t *fields, uint32_t length)
{
    struct error err;
    struct request request = {0};
    struct outcome outcome = {0};
    const struct process *process = NULL;
    if (fields_each(fields, length, take_field, &request, &err) < 0) {
        outcome = outcome_error(&err);
    } else if (request.signal == 0 || request.signal >= NSIG) {
        error_set(&err, ERROR_INVALID, "there is no signal %llu",
                  (unsigned long long)request.signal);
        error_hint(&err, "signals are numbered from 1 to %d", NSIG - 1);
        outcome = outcome_error(&err);
    } else if (!(process = process_find_running(request.pid, &err))) {
        outcome = outcome_error(&err);
    } else {
        process_signal(process, request.signal);
    }
    stream_end(stream, &outcome);
}

static struct process *find_reader(uint64_t pid, struct error *err)
{
    struct process *process = process_find_running(pid, err);
    if (!process || process->input >= 0)
        return process;
    error_set(err, ERROR_UNAVAILABLE, "the stdin of that command is closed");
    error_hint(err, "whoever sends the last of its input closes it; start it anew to send more");
    return NULL;
}

void process_input_open(struct stream *stream, const uint8_t *fields, uint32_t length)
{
    struct error err;
    struct request request = {0};
    struct process *process = NULL;
    if (fields_each(fields, length, take_field, &request, &err) == 0)
        process = find_reader(request.pid, &err);
    if (!process) {
        stream_end_error(stream, &err);
        return;
    }
    struct attachment *feeder = attachment_add(process, stream, ATTACHMENT_FEEDER);
    feeder->closes = request.close;
    attachment_open_input(feeder);
    if (feeder->input.watch.fd < 0) {
        error_set(&err, ERROR_NO_SPACE, "too many files are open in the agent");
        struct outcome outcome = outcome_error(&err);
        attachment_end(feeder, &outcome);
    }
}
