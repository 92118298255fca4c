#include "agent/connection.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "agent/loop.h"
#include "base/mem.h"
#include "proto/fields.h"

#define BUCKETS 256
#define QUEUE_MAX (1024u * 1024)
#define READ_SIZE (64u * 1024)
#define RECORDS_MAX (256u * 1024 * 1024)
/* Short input needs no message of its own in return. */
#define GRANT_MIN (PROTOCOL_WINDOW / 4)
/* Edges only: a port without a host reports a hang-up for as long as that lasts. */
#define WATCHED (EPOLLIN | EPOLLET)

static struct {
    const struct connection_events *events;
    struct loop_watch watch;
    bool keeps;
    bool closed;
    struct buf in;
    struct buf out;
    bool starved;          /* somebody found the queue full */
    struct stream *holder; /* NULL: we may speak */
    size_t may_write;      /* bytes of `out`, while somebody holds */
    size_t stream_count;
    struct stream *buckets[BUCKETS];
} connection;

static struct stream **find_place(uint32_t id)
{
    struct stream **at = &connection.buckets[id % BUCKETS];
    while (*at && (*at)->id != id)
        at = &(*at)->next;
    return at;
}

static void close_with(const struct error *err)
{
    if (connection.closed)
        return;
    connection.closed = true;
    loop_watch_stop(&connection.watch);
    connection.events->closed(err);
}

static int open_stream(const struct frame *frame, struct error *err)
{
    struct stream **place = find_place(frame->stream);
    if (frame->stream == 0 || *place)
        return error_set(err, ERROR_PROTOCOL, "stream %u is in use", frame->stream);
    struct stream *stream = xcalloc(1, sizeof *stream);
    stream->id = frame->stream;
    stream->operation = frame->detail;
    stream->send_credit = stream->receive_credit = PROTOCOL_WINDOW;
    stream->output_limit = UINT64_MAX;
    *place = stream;
    if (++connection.stream_count > PROTOCOL_STREAMS_MAX) {
        struct error limit;
        error_set(&limit, ERROR_LIMIT, "more than %d operations at once", PROTOCOL_STREAMS_MAX);
        error_hint(&limit, "wait for some of them to end");
        stream_end_error(stream, &limit);
        return 0;
    }
    connection.events->open(stream, frame->payload, frame->length);
    return 0;
}

static int take_data(struct stream *stream, const struct frame *frame, struct error *err)
{
    if (frame->length > stream->receive_credit)
        return error_set(err, ERROR_PROTOCOL, "stream %u sent more than its credit", stream->id);
    stream->receive_credit -= frame->length;
    if (stream->events->data)
        stream->events->data(stream, frame->detail, frame->payload, frame->length);
    else
        stream_grant(stream, frame->length);
    return 0;
}

static int take_credit(struct stream *stream, const struct frame *frame, struct error *err)
{
    uint32_t amount;
    int result = frame_credit(frame, &amount, err);
    if (result < 0)
        return result;
    if (amount > UINT32_MAX - stream->send_credit)
        return error_set(err, ERROR_PROTOCOL, "stream %u got too much credit", stream->id);
    stream->send_credit += amount;
    if (stream->events->room)
        stream->events->room(stream);
    return 0;
}

static void forget(struct stream *stream)
{
    static const struct stream_events none;
    stream->forgotten = true;
    if (!stream->events)
        stream->events = &none;
    if (stream->events->forgotten) {
        stream->events->forgotten(stream);
        return;
    }
    cleanup_buf struct buf cancel = {0};
    fields_add_number(&cancel, TAG_CANCEL, 1);
    if (stream->events->control)
        stream->events->control(stream, buf_data(&cancel), (uint32_t)buf_length(&cancel));
}

/* What they still had to say is for the keeper of the original. */
static void forget_all(void)
{
    struct stream *all = NULL;
    for (size_t i = 0; i < BUCKETS; i++) {
        for (struct stream *at; (at = connection.buckets[i]);) {
            connection.buckets[i] = at->next;
            at->next = all;
            all = at;
        }
    }
    connection.stream_count = 0;
    buf_consume(&connection.out, buf_length(&connection.out));
    for (struct stream *next; all; all = next) {
        next = all->next;
        forget(all);
    }
}

/* The first frame tells which of the two we are. */
static void let_go(const struct frame *frame)
{
    struct stream *holder = steal_pointer(&connection.holder);
    bool is_copy = frame->type == FRAME_OPEN && frame->detail == OP_ADOPT;
    if (is_copy)
        forget_all();
    stream_end(holder, &(struct outcome){0});
}

/* Frames for a stream that has ended were under way when it did: they are no mistake. */
static int dispatch(const struct frame *frame, struct error *err)
{
    if (connection.holder)
        let_go(frame);
    if (frame->type == FRAME_OPEN)
        return open_stream(frame, err);
    struct stream *stream = *find_place(frame->stream);
    if (!stream)
        return 0;
    switch (frame->type) {
    case FRAME_DATA:
        return take_data(stream, frame, err);
    case FRAME_CREDIT:
        return take_credit(stream, frame, err);
    case FRAME_EOF:
        if (stream->events->eof)
            stream->events->eof(stream, frame->detail);
        return 0;
    case FRAME_CONTROL:
        if (stream->events->control)
            stream->events->control(stream, frame->payload, frame->length);
        return 0;
    default:
        return error_set(err, ERROR_PROTOCOL, "frame type %d is not for an agent", frame->type);
    }
}

static int take_frames(struct error *err)
{
    for (;;) {
        struct frame frame;
        int size = frame_decode(&connection.in, &frame, err);
        if (size <= 0)
            return size;
        int result = dispatch(&frame, err);
        if (result < 0)
            return result;
        buf_consume(&connection.in, (size_t)size);
    }
}

static void on_ready(void *owner, uint32_t events)
{
    (void)owner, (void)events;
    struct error err = {0};
    while (!connection.closed) {
        ssize_t got = read(connection.watch.fd, buf_reserve(&connection.in, READ_SIZE), READ_SIZE);
        if (got > 0) {
            buf_commit(&connection.in, (size_t)got);
            if (take_frames(&err) < 0)
                close_with(&err);
        } else if (got < 0 && errno == EINTR) {
            continue;
        } else {
            bool gone = got == 0 || errno != EAGAIN;
            if (gone && !connection.keeps)
                close_with(&err);
            return;
        }
    }
}

void connection_open(int fd, bool keeps, const struct connection_events *events)
{
    connection.events = events;
    connection.keeps = keeps;
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    loop_watch_start(&connection.watch, fd, WATCHED, on_ready, NULL);
}

void connection_hello(void)
{
    cleanup_buf struct buf fields = {0};
    struct utsname name;
    uname(&name);
    fields_add_number(&fields, TAG_VERSION, PROTOCOL_VERSION);
    fields_add_text(&fields, TAG_KERNEL, name.release);
    frame_append(&connection.out, 0, FRAME_HELLO, 0, buf_data(&fields), buf_length(&fields));
}

static void offer_room(void)
{
    uint32_t ids[PROTOCOL_STREAMS_MAX];
    size_t count = 0;
    for (size_t i = 0; i < BUCKETS; i++) {
        for (const struct stream *at = connection.buckets[i]; at; at = at->next) {
            if (count < PROTOCOL_STREAMS_MAX)
                ids[count++] = at->id;
        }
    }
    for (size_t i = 0; i < count; i++) {
        struct stream *stream = *find_place(ids[i]);
        if (stream && stream->events && stream->events->room)
            stream->events->room(stream);
    }
}

static size_t writable(void)
{
    return connection.holder ? connection.may_write : buf_length(&connection.out);
}

/* False when there is nobody to write to. */
static bool write_queue(void)
{
    ssize_t put = 0;
    while (writable() > 0 && !connection.closed) {
        put = write(connection.watch.fd, buf_data(&connection.out), writable());
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0 && errno != EAGAIN && !connection.keeps)
            return false;
        if (put < 0)
            break;
        buf_consume(&connection.out, (size_t)put);
        if (connection.holder)
            connection.may_write -= (size_t)put;
    }
    if (!connection.closed)
        loop_watch_change(&connection.watch, put < 0 ? WATCHED | EPOLLOUT : WATCHED);
    return true;
}

void connection_flush(void)
{
    for (;;) {
        if (!write_queue()) {
            struct error gone = {0};
            close_with(&gone);
            return;
        }
        if (!connection.starved || buf_length(&connection.out) > QUEUE_MAX / 2)
            return;
        connection.starved = false;
        offer_room();
    }
}

void connection_flush_blocking(void)
{
    while (write_queue() && buf_length(&connection.out) > 0 && !connection.closed) {
        struct pollfd wait = {.fd = connection.watch.fd, .events = POLLOUT};
        if (poll(&wait, 1, 1000) <= 0 || (wait.revents & (POLLHUP | POLLERR)))
            return;
    }
}

void connection_hold(struct stream *stream)
{
    static const struct stream_events none;
    stream->events = &none;
    stream_event(stream, &(struct buf){0});
    connection.holder = stream;
    connection.may_write = buf_length(&connection.out);
}

size_t stream_room(const struct stream *stream)
{
    if (stream->forgotten)
        return QUEUE_MAX;
    size_t queued = buf_length(&connection.out);
    if (queued >= QUEUE_MAX) {
        connection.starved = true;
        return 0;
    }
    size_t room = QUEUE_MAX - queued;
    return stream->send_credit < room ? stream->send_credit : room;
}

size_t stream_output_room(const struct stream *stream)
{
    bool goes_nowhere = stream->forgotten || stream->output_bytes >= stream->output_limit;
    return goes_nowhere ? SIZE_MAX : stream_room(stream);
}

/* Counts output; returns how much of it may be passed on. */
static size_t within_limit(struct stream *stream, size_t length)
{
    uint64_t before = stream->output_bytes;
    uint64_t left = before < stream->output_limit ? stream->output_limit - before : 0;
    stream->output_bytes += length;
    return length < left ? length : (size_t)left;
}

void stream_send(struct stream *stream, enum channel channel, const void *bytes, size_t length)
{
    if (channel == CHANNEL_STDOUT || channel == CHANNEL_STDERR)
        length = within_limit(stream, length);
    if (length == 0 || stream->forgotten)
        return;
    frame_append(&connection.out, stream->id, FRAME_DATA, (uint8_t)channel, bytes, length);
    stream->send_credit -= (uint32_t)length;
}

void stream_eof(struct stream *stream, enum channel channel)
{
    if (!stream->forgotten)
        frame_append(&connection.out, stream->id, FRAME_EOF, (uint8_t)channel, NULL, 0);
}

bool stream_takes_record(struct stream *stream, size_t length)
{
    if (length > RECORDS_MAX - stream->record_bytes) {
        stream->records_dropped++;
        return false;
    }
    stream->record_bytes += length;
    return true;
}

/* On stderr, for want of a better place; not when that is full as well. */
static void tell_dropped(struct stream *stream)
{
    cleanup_buf struct buf text = {0};
    buf_printf(&text, "msb: results left out: %u, beyond %u MiB for one call\n",
               stream->records_dropped, RECORDS_MAX >> 20);
    if (stream_room(stream) >= buf_length(&text))
        stream_send(stream, CHANNEL_STDERR, buf_data(&text), buf_length(&text));
}

void stream_event(struct stream *stream, const struct buf *fields)
{
    if (!stream->forgotten)
        frame_append(&connection.out, stream->id, FRAME_EVENT, 0, buf_data(fields),
                     buf_length(fields));
}

void stream_grant(struct stream *stream, size_t amount)
{
    if (amount == 0 || stream->forgotten)
        return;
    stream->ungranted += (uint32_t)amount;
    if (stream->ungranted < GRANT_MIN)
        return;
    stream->receive_credit += stream->ungranted;
    frame_append_credit(&connection.out, stream->id, stream->ungranted);
    stream->ungranted = 0;
}

void stream_end(struct stream *stream, const struct outcome *outcome)
{
    if (stream->forgotten) {
        free(stream);
        return;
    }
    struct outcome told = *outcome;
    if (stream->records_dropped)
        tell_dropped(stream);
    if (stream->output_bytes > stream->output_limit)
        told.output_bytes = stream->output_bytes;
    outcome_append(&connection.out, stream->id, &told);
    struct stream **place = find_place(stream->id);
    *place = stream->next;
    connection.stream_count--;
    free(stream);
}

void stream_end_error(struct stream *stream, const struct error *err)
{
    struct outcome outcome = outcome_error(err);
    stream_end(stream, &outcome);
}
