#include "agent/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/mem.h"

#define PIECE (64u * 1024)
/* More than a terminal's buffers hold, so that what a finished program wrote fits. */
#define TERMINAL_LEFT (128u * 1024)

static uint8_t piece[PIECE];

static void close_output(struct output *output)
{
    loop_watch_stop(&output->watch);
    fd_close(output->watch.fd);
    output->watch.fd = -1;
    output->left = 0;
}

static size_t allowance(const struct output *output)
{
    size_t size = PIECE;
    if (output->stream) {
        size_t room = stream_output_room(output->stream);
        size = room < size ? room : size;
    }
    if (output->settling && output->left < size)
        size = output->left;
    return size;
}

/* One read. False when there is nothing more to do now. */
static bool pump(struct output *output)
{
    size_t size = allowance(output);
    if (size == 0)
        return false;
    ssize_t got = read(output->watch.fd, piece, size);
    if (got < 0 && errno == EINTR)
        return true;
    if (got < 0 && errno == EAGAIN) {
        output->left = 0;
        return false;
    }
    if (got <= 0) {
        close_output(output);
        return false;
    }
    if (output->settling)
        output->left -= (size_t)got;
    if (output->stream)
        stream_send(output->stream, output->channel, piece, (size_t)got);
    if (output->tap)
        output->tap(output, piece, (size_t)got);
    return true;
}

bool output_is_settled(const struct output *output)
{
    return output->watch.fd < 0 || (output->settling && output->left == 0);
}

static void advance(struct output *output)
{
    if (output->settling) {
        while (!output_is_settled(output) && pump(output)) {
        }
    } else {
        pump(output);
    }
    if (output->watch.fd >= 0 && !output_is_settled(output))
        loop_watch_change(&output->watch, allowance(output) > 0 ? EPOLLIN : 0);
    if (output->settling && output_is_settled(output))
        output->settled(output->owner);
}

static void on_ready(void *owner, uint32_t events)
{
    (void)events;
    struct output *output = owner;
    /* What comes after the end waits for the next call. That is rare: most outputs are silent then,
     * and the watch need not be changed twice for each call. */
    if (output_is_settled(output))
        loop_watch_change(&output->watch, 0);
    else
        advance(output);
}

void output_open(struct output *output, int fd, enum channel channel, bool terminal,
                 struct stream *stream)
{
    *output = (struct output){.channel = channel, .terminal = terminal, .stream = stream};
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    loop_watch_start(&output->watch, fd, EPOLLIN, on_ready, output);
}

void output_resume(struct output *output)
{
    if (output->watch.fd >= 0 && !output_is_settled(output))
        advance(output);
}

void output_settle(struct output *output, void (*settled)(void *owner), void *owner)
{
    int waiting = 0;
    output->settling = true;
    output->settled = settled;
    output->owner = owner;
    if (output->watch.fd >= 0 && ioctl(output->watch.fd, FIONREAD, &waiting) < 0)
        waiting = 0;
    /* A terminal passes bytes on lazily: only reading tells what is there. */
    output->left = output->terminal ? TERMINAL_LEFT : (size_t)waiting;
    if (output->watch.fd < 0)
        output->left = 0;
    advance(output);
}

void output_restart(struct output *output, struct stream *stream)
{
    output->settling = false;
    output->stream = stream;
    if (output->watch.fd >= 0)
        loop_watch_change(&output->watch, EPOLLIN);
}

struct drain {
    struct loop_watch watch;
    struct drain *next;
};

static struct drain *drains;

static void on_drain(void *owner, uint32_t events)
{
    (void)events;
    struct drain *drain = owner;
    ssize_t got = read(drain->watch.fd, piece, PIECE);
    if (got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR)))
        return;
    struct drain **at = &drains;
    while (*at != drain)
        at = &(*at)->next;
    *at = drain->next;
    loop_watch_stop(&drain->watch);
    fd_close(drain->watch.fd);
    free(drain);
}

void output_abandon(struct output *output)
{
    loop_watch_stop(&output->watch);
    int fd = steal_fd(&output->watch.fd);
    if (fd < 0)
        return;
    struct drain *drain = xcalloc(1, sizeof *drain);
    drain->next = drains;
    drains = drain;
    loop_watch_start(&drain->watch, fd, EPOLLIN, on_drain, drain);
}

void output_settle_both(struct output outputs[2], void (*settled)(void *owner), void *owner)
{
    bool second = outputs[1].watch.fd >= 0;
    output_settle(&outputs[0], settled, owner);
    if (second)
        output_settle(&outputs[1], settled, owner);
}

void output_resume_both(struct output outputs[2])
{
    bool second = !output_is_settled(&outputs[1]);
    output_resume(&outputs[0]);
    if (second)
        output_resume(&outputs[1]);
}
