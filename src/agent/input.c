#include "agent/input.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/mem.h"

#define END_OF_TRANSMISSION "\x04"

static void finish(struct input *input)
{
    if (input->broken || !input->terminal)
        input_discard(input);
    if (input->ended)
        input->ended(input->owner);
}

static void advance(struct input *input)
{
    while (input->watch.fd >= 0 && buf_length(&input->waiting) > 0) {
        ssize_t put =
            write(input->watch.fd, buf_data(&input->waiting), buf_length(&input->waiting));
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0 && errno == EAGAIN)
            break;
        if (put < 0) {
            input->broken = true;
            finish(input);
            return;
        }
        buf_consume(&input->waiting, (size_t)put);
        size_t given = (size_t)put;
        if (buf_length(&input->waiting) == 0) {
            given -= input->marks;
            input->marks = 0;
        }
        stream_grant(input->stream, given);
    }
    if (input->watch.fd < 0)
        return;
    loop_watch_change(&input->watch, buf_length(&input->waiting) > 0 ? EPOLLOUT : 0);
    if (input->ending && buf_length(&input->waiting) == 0)
        finish(input);
}

static void on_ready(void *owner, uint32_t events)
{
    (void)events;
    advance(owner);
}

void input_open(struct input *input, int fd, bool terminal, struct stream *stream)
{
    *input = (struct input){.terminal = terminal, .stream = stream};
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    loop_watch_start(&input->watch, fd, 0, on_ready, input);
}

/* Saves a copy of what the command takes at once. Failures are met again by advance(). */
static size_t write_now(struct input *input, const uint8_t *bytes, size_t length)
{
    ssize_t put = write(input->watch.fd, bytes, length);
    if (put <= 0)
        return 0;
    stream_grant(input->stream, (size_t)put);
    return (size_t)put;
}

void input_write(struct input *input, const uint8_t *bytes, size_t length)
{
    if (input->watch.fd < 0 || input->ending) {
        stream_grant(input->stream, length);
        return;
    }
    size_t taken = buf_length(&input->waiting) == 0 ? write_now(input, bytes, length) : 0;
    if (taken == length)
        return;
    buf_append(&input->waiting, bytes + taken, length - taken);
    advance(input);
}

void input_end(struct input *input)
{
    if (input->ending || input->watch.fd < 0)
        return;
    input->ending = true;
    if (input->terminal) {
        buf_append_text(&input->waiting, END_OF_TRANSMISSION);
        input->marks++;
    }
    advance(input);
}

void input_discard(struct input *input)
{
    size_t waiting = buf_length(&input->waiting) - input->marks;
    input_close(input);
    input->marks = 0;
    if (input->stream)
        stream_grant(input->stream, waiting);
}

void input_close(struct input *input)
{
    loop_watch_stop(&input->watch);
    fd_close(input->watch.fd);
    input->watch.fd = -1;
    buf_free(&input->waiting);
}
