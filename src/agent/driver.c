#include "agent/driver.h"

#include <errno.h>
#include <unistd.h>

#include "base/mem.h"
#include "proto/wire.h"

#define HEADER 5

enum step { STEP_NEXT, STEP_MORE_BYTES, STEP_MORE_ROOM, STEP_STOP };

static void send_waiting(struct driver *driver)
{
    while (buf_length(&driver->sending) > 0) {
        ssize_t put =
            write(driver->commands.fd, buf_data(&driver->sending), buf_length(&driver->sending));
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            break;
        buf_consume(&driver->sending, (size_t)put);
    }
    /* A driver that does not take commands any more is about to be reaped. */
    bool wait = buf_length(&driver->sending) > 0 && errno == EAGAIN;
    loop_watch_change(&driver->commands, wait ? EPOLLOUT : 0);
}

static void on_commands(void *owner, uint32_t events)
{
    (void)events;
    send_waiting(owner);
}

static enum step broken(struct driver *driver, const char *why)
{
    loop_watch_stop(&driver->messages);
    driver->ended = true;
    driver->record_left = 0;
    buf_free(&driver->received);
    driver->events->broken(driver->owner, why);
    return STEP_STOP;
}

/* A piece goes out as one frame, so it waits until it is there and there is room for all of it. */
static enum step pass_piece(struct driver *driver, enum channel channel, uint32_t length)
{
    if (length > DRIVER_PIECE_MAX)
        return broken(driver, "a piece of output is too large");
    if (buf_length(&driver->received) < HEADER + (size_t)length)
        return STEP_MORE_BYTES;
    if (driver->stream && stream_output_room(driver->stream) < length)
        return STEP_MORE_ROOM;
    if (driver->stream)
        stream_send(driver->stream, channel, buf_data(&driver->received) + HEADER, length);
    buf_consume(&driver->received, HEADER + (size_t)length);
    return STEP_NEXT;
}

/* The length, which leads the record on the wire as well; the rest follows as it comes. */
static enum step begin_record(struct driver *driver, uint32_t length)
{
    if (length > DRIVER_RECORD_MAX)
        return broken(driver, "a result is too large");
    if (driver->stream && stream_room(driver->stream) < 4)
        return STEP_MORE_ROOM;
    driver->dropping = driver->stream && !stream_takes_record(driver->stream, length);
    if (driver->stream && !driver->dropping)
        stream_send(driver->stream, CHANNEL_RESULTS, buf_data(&driver->received) + 1, 4);
    buf_consume(&driver->received, HEADER);
    driver->record_left = length;
    return STEP_NEXT;
}

static enum step pass_record(struct driver *driver)
{
    size_t size = buf_length(&driver->received);
    size = size < driver->record_left ? size : driver->record_left;
    if (size == 0)
        return STEP_MORE_BYTES;
    if (driver->stream && !driver->dropping) {
        size_t room = stream_room(driver->stream);
        size = size < room ? size : room;
        if (size == 0)
            return STEP_MORE_ROOM;
        stream_send(driver->stream, CHANNEL_RESULTS, buf_data(&driver->received), size);
    }
    buf_consume(&driver->received, size);
    driver->record_left -= (uint32_t)size;
    return STEP_NEXT;
}

static enum step take_done(struct driver *driver, uint32_t length)
{
    if (length != 1)
        return broken(driver, "a malformed end of a call");
    if (buf_length(&driver->received) < HEADER + 1)
        return STEP_MORE_BYTES;
    int exit_code = buf_data(&driver->received)[HEADER];
    buf_consume(&driver->received, HEADER + 1);
    driver->events->done(driver->owner, exit_code);
    /* The call may have been ended and the driver closed. */
    return STEP_STOP;
}

static enum step take_message(struct driver *driver)
{
    if (driver->record_left > 0)
        return pass_record(driver);
    if (buf_length(&driver->received) < HEADER)
        return STEP_MORE_BYTES;
    const uint8_t *header = buf_data(&driver->received);
    uint32_t length = wire_get32(header + 1);
    switch (header[0]) {
    case 'o':
        return pass_piece(driver, CHANNEL_STDOUT, length);
    case 'e':
        return pass_piece(driver, CHANNEL_STDERR, length);
    case 'j':
        return begin_record(driver, length);
    case 'd':
        return take_done(driver, length);
    default:
        return broken(driver, "a message of unknown kind");
    }
}

/* False when there is nothing to read now. */
static bool read_messages(struct driver *driver)
{
    ssize_t got;
    do {
        got = read(driver->messages.fd, buf_reserve(&driver->received, DRIVER_PIECE_MAX),
                   DRIVER_PIECE_MAX);
    } while (got < 0 && errno == EINTR);
    if (got > 0) {
        buf_commit(&driver->received, (size_t)got);
        return true;
    }
    if (got == 0)
        driver->ended = true;
    return false;
}

static void wait_for(struct driver *driver, enum step step)
{
    bool read_more = step == STEP_MORE_BYTES && !driver->ended;
    loop_watch_change(&driver->messages, read_more ? EPOLLIN : 0);
    if (driver->settling && step == STEP_MORE_BYTES) {
        driver->settling = false;
        driver->events->settled(driver->owner);
    }
}

static void advance(struct driver *driver)
{
    for (;;) {
        enum step step = take_message(driver);
        if (step == STEP_STOP)
            return;
        if (step == STEP_NEXT || (step == STEP_MORE_BYTES && !driver->ended &&
                                  driver->messages.fd >= 0 && read_messages(driver)))
            continue;
        wait_for(driver, step);
        return;
    }
}

static void on_messages(void *owner, uint32_t events)
{
    (void)events;
    advance(owner);
}

void driver_put_number(struct buf *out, uint32_t number)
{
    const uint8_t bytes[] = {(uint8_t)(number >> 24), (uint8_t)(number >> 16),
                             (uint8_t)(number >> 8), (uint8_t)number};
    buf_append_hex(out, bytes, sizeof bytes);
}

void driver_put_entropy(struct buf *out, const uint8_t entropy[DRIVER_ENTROPY])
{
    buf_append_hex(out, entropy, DRIVER_ENTROPY);
}

void driver_open(struct driver *driver, int commands, int messages,
                 const struct driver_events *events, void *owner)
{
    *driver = (struct driver){.events = events, .owner = owner};
    loop_watch_start(&driver->commands, commands, 0, on_commands, driver);
    loop_watch_start(&driver->messages, messages, EPOLLIN, on_messages, driver);
}

void driver_close(struct driver *driver)
{
    loop_watch_stop(&driver->commands);
    loop_watch_stop(&driver->messages);
    fd_close(driver->commands.fd);
    fd_close(driver->messages.fd);
    driver->commands.fd = driver->messages.fd = -1;
    buf_free(&driver->sending);
    buf_free(&driver->received);
}

void driver_send(struct driver *driver, char kind, const void *bytes, size_t length)
{
    buf_append(&driver->sending, &kind, 1);
    driver_put_number(&driver->sending, (uint32_t)length);
    buf_append(&driver->sending, bytes, length);
    send_waiting(driver);
}

void driver_resume(struct driver *driver)
{
    if (driver->messages.fd >= 0 && !driver->ended)
        loop_watch_change(&driver->messages, EPOLLIN);
    if (driver->messages.fd >= 0)
        advance(driver);
}

void driver_settle(struct driver *driver)
{
    driver->settling = true;
    if (driver->messages.fd < 0)
        wait_for(driver, STEP_MORE_BYTES);
    else
        advance(driver);
}
