#include "agent/attachment.h"

#include <fcntl.h>

#include "base/mem.h"

static void unlink_from(struct process *process, struct attachment *attachment)
{
    struct attachment **at = &process->attachments;
    while (*at != attachment)
        at = &(*at)->next;
    *at = attachment->next;
    if (process->starter == attachment)
        process->starter = NULL;
}

void attachment_end(struct attachment *attachment, const struct outcome *outcome)
{
    const struct process *process = attachment->process;
    struct outcome told = *outcome;
    if (attachment->kind == ATTACHMENT_VIEWER && process->printed > attachment->sent)
        told.output_bytes = process->printed;
    unlink_from(attachment->process, attachment);
    input_close(&attachment->input);
    stream_end(attachment->stream, &told);
    free(attachment);
}

/* The stream ends and the command does not: it runs on without anybody who slows it down. */
static void leave(struct attachment *attachment)
{
    struct process *process = attachment->process;
    bool started_it = attachment->kind == ATTACHMENT_STARTER;
    struct outcome done = {0};
    attachment_end(attachment, &done);
    if (started_it) {
        process->outputs[0].stream = process->outputs[1].stream = NULL;
        output_resume_both(process->outputs);
    } else {
        process_left(process);
    }
}

/* ---- output ---------------------------------------------------------------------------------- */

static void send_remembered(struct attachment *viewer)
{
    const struct process *process = viewer->process;
    size_t room;
    while (viewer->position < process->tail->end && (room = stream_room(viewer->stream)) > 0) {
        const uint8_t *bytes;
        enum channel channel;
        viewer->position = tail_resume(process->tail, viewer->position, process->request.pty);
        size_t length = tail_piece(process->tail, viewer->position, room, &bytes, &channel);
        stream_send(viewer->stream, channel, bytes, length);
        viewer->position += length;
        viewer->sent += length;
    }
}

static void advance(struct attachment *attachment)
{
    const struct process *process = attachment->process;
    if (attachment->kind == ATTACHMENT_VIEWER) {
        send_remembered(attachment);
        if (attachment->position < process->tail->end)
            return;
    }
    if (process->ended)
        attachment_end(attachment, &process->outcome);
}

void attachment_advance_all(struct process *process)
{
    struct attachment *next;
    for (struct attachment *at = process->attachments; at; at = next) {
        next = at->next;
        advance(at);
    }
}

static void on_room(struct stream *stream)
{
    struct attachment *attachment = stream->owner;
    struct process *process = attachment->process;
    if (attachment->kind == ATTACHMENT_STARTER) {
        output_resume_both(process->outputs);
    } else if (attachment->kind == ATTACHMENT_VIEWER) {
        advance(attachment);
        process_left(process);
    }
}

/* ---- input ----------------------------------------------------------------------------------- */

static void fail_feeder(struct attachment *feeder)
{
    struct error err;
    error_set(&err, ERROR_UNAVAILABLE,
              "the command stopped reading before it had all of its input");
    struct outcome outcome = outcome_error(&err);
    attachment_end(feeder, &outcome);
}

static void on_input_ended(void *owner)
{
    struct attachment *attachment = owner;
    struct process *process = attachment->process;
    bool terminal = process->request.pty;
    if (attachment->kind != ATTACHMENT_FEEDER) {
        if (!attachment->input.broken && !terminal)
            process_close_input(process);
    } else if (attachment->input.broken) {
        fail_feeder(attachment);
    } else {
        bool closes = attachment->closes && !terminal;
        leave(attachment);
        if (closes)
            process_close_input(process);
    }
}

void attachment_close_inputs(struct process *process)
{
    struct attachment *next;
    for (struct attachment *at = process->attachments; at; at = next) {
        next = at->next;
        if (at->kind == ATTACHMENT_FEEDER)
            fail_feeder(at);
        else
            input_discard(&at->input);
    }
}

/* Each stream has a descriptor of its own, so that a command which does not read stops whoever
 * sends, and what one stream has sent never waits for another. */
void attachment_open_input(struct attachment *attachment)
{
    const struct process *process = attachment->process;
    int fd = process->input >= 0 ? fcntl(process->input, F_DUPFD_CLOEXEC, 3) : -1;
    if (fd < 0)
        return;
    /* A feeder that leaves the stdin open types no end of file on a terminal. */
    bool types_end =
        process->request.pty && (attachment->kind != ATTACHMENT_FEEDER || attachment->closes);
    input_open(&attachment->input, fd, types_end, attachment->stream);
    attachment->input.ended = on_input_ended;
    attachment->input.owner = attachment;
}

static void on_data(struct stream *stream, uint8_t channel, const uint8_t *bytes, size_t length)
{
    struct attachment *attachment = stream->owner;
    if (channel == CHANNEL_STDIN)
        input_write(&attachment->input, bytes, length);
    else
        stream_grant(stream, length);
}

static void on_eof(struct stream *stream, uint8_t channel)
{
    struct attachment *attachment = stream->owner;
    if (channel == CHANNEL_STDIN)
        input_end(&attachment->input);
}

/* ---- control --------------------------------------------------------------------------------- */

/* A client that goes away is told as DETACH and CANCEL at once: the first counts where something is
 * to go on without it. */
static void on_control(struct stream *stream, const uint8_t *fields, uint32_t length)
{
    struct attachment *attachment = stream->owner;
    struct process *process = attachment->process;
    struct exec_control control;
    struct error err;
    if (exec_control_parse(&control, fields, length, &err) < 0)
        return;
    bool outlives = attachment->kind != ATTACHMENT_STARTER || process->request.keep;
    bool harmless = attachment->kind == ATTACHMENT_FEEDER || process->ended;
    if ((control.detach && outlives) || (control.cancel && harmless)) {
        leave(attachment);
    } else if (control.detach || control.cancel) {
        process_cancel(process);
    } else if (!harmless) {
        process_resize(process, control.rows, control.cols);
        process_signal(process, control.signal);
    }
}

/* The command goes on without its client; what it still reads, ends. */
static void on_forgotten(struct stream *stream)
{
    struct attachment *attachment = stream->owner;
    if (attachment->kind != ATTACHMENT_STARTER || attachment->process->request.keep) {
        leave(attachment);
        return;
    }
    input_end(&attachment->input);
    output_resume_both(attachment->process->outputs);
}

static const struct stream_events events = {.data = on_data,
                                            .eof = on_eof,
                                            .control = on_control,
                                            .room = on_room,
                                            .forgotten = on_forgotten};

struct attachment *attachment_add(struct process *process, struct stream *stream,
                                  enum attachment_kind kind)
{
    struct attachment *attachment = xcalloc(1, sizeof *attachment);
    attachment->kind = kind;
    attachment->stream = stream;
    attachment->process = process;
    attachment->input = (struct input){.watch.fd = -1, .stream = stream};
    attachment->next = process->attachments;
    process->attachments = attachment;
    stream->events = &events;
    stream->owner = attachment;
    return attachment;
}
