#include "sandbox/client.h"

#include "proto/fields.h"
#include "sandbox/launch.h"

/* Credit is returned in portions of this size: fewer frames, no stall. */
#define PORTION (PROTOCOL_WINDOW / 4)

static struct client_call *find(struct sandbox_client *client, uint32_t stream)
{
    struct client_call *call = client->calls;
    while (call && call->stream != stream)
        call = call->next;
    return call;
}

static void end_call(struct client_call *call, const struct outcome *outcome)
{
    struct client_call **at = &call->client->calls;
    while (*at != call)
        at = &(*at)->next;
    *at = call->next;
    call->handlers->end(call, outcome);
}

static void on_end(struct client_call *call, const struct frame *frame)
{
    struct outcome outcome;
    struct error err;
    int result = outcome_read(frame, &outcome, &err);
    if (result < 0) {
        struct outcome broken = outcome_error(&err);
        end_call(call, &broken);
    } else {
        end_call(call, &outcome);
    }
    outcome_free(&outcome);
}

static void give(struct client_call *call)
{
    if (!call->giving)
        return;
    size_t size = call->room < call->given_length ? (size_t)call->room : call->given_length;
    call_send(call, call->given, size);
    call->given += size;
    call->given_length -= size;
    if (call->given_length > 0)
        return;
    call->giving = false;
    call_send_eof(call);
}

void call_give(struct client_call *call, const void *bytes, size_t length)
{
    call->given = bytes;
    call->given_length = length;
    call->giving = true;
    give(call);
}

static void on_frame(struct link *link, const struct frame *frame)
{
    struct client_call *call = find(link->owner, frame->stream);
    struct error err;
    uint32_t amount;
    if (!call)
        return;
    switch (frame->type) {
    case FRAME_DATA:
        if (!call->handlers->data)
            call_consumed(call, frame->length);
        else if (frame->detail < CHANNEL_COUNT)
            call->handlers->data(call, frame->detail, frame->payload, frame->length);
        break;
    case FRAME_EOF:
        if (call->handlers->eof && frame->detail < CHANNEL_COUNT)
            call->handlers->eof(call, frame->detail);
        break;
    case FRAME_CREDIT:
        if (frame_credit(frame, &amount, &err) == 0) {
            call->room += amount;
            give(call);
            if (call->handlers->room)
                call->handlers->room(call);
        }
        break;
    case FRAME_EVENT:
        if (call->handlers->event)
            call->handlers->event(call, frame->payload, frame->length);
        break;
    case FRAME_END:
        on_end(call, frame);
        break;
    default:
        break;
    }
}

void client_abandon(struct sandbox_client *client, const struct error *err)
{
    struct outcome outcome = outcome_error(err);
    link_close(&client->link);
    while (client->calls)
        end_call(client->calls, &outcome);
}

static void on_lost(struct link *link, const struct error *reason)
{
    struct error err = *reason;
    if (err.code == ERROR_NONE)
        error_set(&err, ERROR_UNAVAILABLE, "the sandbox's keeper is gone");
    client_abandon(link->owner, &err);
}

static void on_closed(struct link *link)
{
    struct sandbox_client *client = link->owner;
    if (client->closed)
        client->closed(client);
}

static const struct link_handlers handlers = {
    .frame = on_frame,
    .lost = on_lost,
    .closed = on_closed,
};

int client_open(struct sandbox_client *client, uv_loop_t *loop, int fd, struct error *err)
{
    *client = (struct sandbox_client){.next_stream = LAUNCH_CALL_STREAM + 1};
    return link_open(&client->link, loop, fd, &handlers, client, err);
}

void client_close(struct sandbox_client *client)
{
    link_close(&client->link);
}

void call_join(struct sandbox_client *client, struct client_call *call, uint32_t stream,
               const struct call_handlers *call_handlers, void *context)
{
    *call = (struct client_call){
        .stream = stream,
        .room = PROTOCOL_WINDOW,
        .handlers = call_handlers,
        .context = context,
        .client = client,
        .next = client->calls,
    };
    client->calls = call;
}

void call_start(struct sandbox_client *client, struct client_call *call, enum operation operation,
                const struct buf *fields, const struct call_handlers *call_handlers, void *context)
{
    call_join(client, call, client->next_stream++, call_handlers, context);
    link_send(&client->link, call->stream, FRAME_OPEN, (uint8_t)operation,
              fields ? buf_data(fields) : NULL, fields ? buf_length(fields) : 0);
}

void call_join_first(struct sandbox_client *client, struct client_call *call,
                     const struct call_handlers *call_handlers, void *context)
{
    client->has_call = false;
    call_join(client, call, LAUNCH_CALL_STREAM, call_handlers, context);
}

void call_frames(struct buf *out, enum operation operation, const struct buf *fields,
                 const void *input, size_t length)
{
    const uint32_t stream = LAUNCH_CALL_STREAM;
    frame_append(out, stream, FRAME_OPEN, (uint8_t)operation, buf_data(fields), buf_length(fields));
    if (length > 0)
        frame_append(out, stream, FRAME_DATA, CHANNEL_STDIN, input, length);
    frame_append(out, stream, FRAME_EOF, CHANNEL_STDIN, NULL, 0);
}

void call_send(struct client_call *call, const void *bytes, size_t length)
{
    const uint8_t *at = bytes;
    call->room -= length;
    while (length > 0) {
        size_t piece = length < FRAME_MAX ? length : FRAME_MAX;
        link_send(&call->client->link, call->stream, FRAME_DATA, CHANNEL_STDIN, at, piece);
        at += piece;
        length -= piece;
    }
}

void call_send_eof(struct client_call *call)
{
    link_send(&call->client->link, call->stream, FRAME_EOF, CHANNEL_STDIN, NULL, 0);
}

void call_consumed(struct client_call *call, size_t length)
{
    call->owed += (uint32_t)length;
    if (call->owed < PORTION)
        return;
    link_send_credit(&call->client->link, call->stream, call->owed);
    call->owed = 0;
}

static void control(struct client_call *call, const struct buf *fields)
{
    link_send(&call->client->link, call->stream, FRAME_CONTROL, 0, buf_data(fields),
              buf_length(fields));
}

void call_signal(struct client_call *call, int number)
{
    cleanup_buf struct buf fields = {0};
    fields_add_number(&fields, TAG_SIGNAL, (uint64_t)number);
    control(call, &fields);
}

void call_resize(struct client_call *call, unsigned rows, unsigned cols)
{
    cleanup_buf struct buf fields = {0};
    fields_add_number(&fields, TAG_ROWS, rows);
    fields_add_number(&fields, TAG_COLS, cols);
    control(call, &fields);
}

void call_cancel(struct client_call *call)
{
    cleanup_buf struct buf fields = {0};
    fields_add_number(&fields, TAG_CANCEL, 1);
    control(call, &fields);
}

void call_detach(struct client_call *call)
{
    cleanup_buf struct buf fields = {0};
    fields_add_number(&fields, TAG_DETACH, 1);
    control(call, &fields);
}
