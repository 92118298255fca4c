/*
 * A tunnel is one socket and one stream. Each direction ends on its own: EOF from outside becomes
 * the end of what the program inside reads, its end of writing becomes EOF. The operation is over
 * when both directions are, or when the connection breaks.
 */
#include "agent/tunnel.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/exec_request.h"
#include "agent/loop.h"
#include "base/mem.h"
#include "proto/fields.h"

#define PIECE (64u * 1024)
#define BACKLOG 128

struct tunnel {
    struct stream *stream;
    struct loop_watch watch; /* fd -1: there is no connection yet */
    uint16_t port;
    uint32_t address; /* of ACCEPT */
    bool connected;
    bool second_try;    /* of CONNECT: by IPv6 */
    struct buf waiting; /* for the program inside */
    bool input_ended;   /* no more comes from outside */
    bool input_told;    /* and the program inside knows */
    bool output_ended;
    int broken; /* errno: the program inside takes nothing more; what it said is still read */
    struct tunnel *next; /* parked behind this one */
};

/* A port on which the inside is waited for. Stays open for the life of the sandbox. */
struct listener {
    uint16_t port;
    uint32_t address;
    struct loop_watch watch;
    struct tunnel *parked; /* the first takes the next connection */
    struct listener *next;
};

static struct listener *listeners;
static uint8_t piece[PIECE];

static void free_tunnel(struct tunnel *tunnel)
{
    loop_watch_stop(&tunnel->watch);
    fd_close(tunnel->watch.fd);
    buf_free(&tunnel->waiting);
    free(tunnel);
}

static void end_with(struct tunnel *tunnel, const struct outcome *outcome)
{
    stream_end(tunnel->stream, outcome);
    free_tunnel(tunnel);
}

static void end_with_error(struct tunnel *tunnel, const struct error *err)
{
    struct outcome outcome = outcome_error(err);
    end_with(tunnel, &outcome);
}

static void break_off(struct tunnel *tunnel, int number)
{
    struct error err;
    error_errno(&err, number, "the connection to port %u inside broke", tunnel->port);
    err.code = ERROR_UNAVAILABLE;
    end_with_error(tunnel, &err);
}

/* ---- bytes ------------------------------------------------------------------------------- */

static void push_failed(struct tunnel *tunnel, int number)
{
    tunnel->broken = number;
    tunnel->input_ended = tunnel->input_told = true;
    stream_grant(tunnel->stream, buf_length(&tunnel->waiting));
    buf_free(&tunnel->waiting);
}

static void push(struct tunnel *tunnel)
{
    while (buf_length(&tunnel->waiting) > 0) {
        ssize_t put =
            write(tunnel->watch.fd, buf_data(&tunnel->waiting), buf_length(&tunnel->waiting));
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0 && errno == EAGAIN)
            return;
        if (put < 0) {
            push_failed(tunnel, errno);
            return;
        }
        buf_consume(&tunnel->waiting, (size_t)put);
        stream_grant(tunnel->stream, (size_t)put);
    }
    if (tunnel->input_ended && !tunnel->input_told) {
        shutdown(tunnel->watch.fd, SHUT_WR);
        tunnel->input_told = true;
    }
}

static size_t allowance(const struct tunnel *tunnel)
{
    size_t room = tunnel->output_ended ? 0 : stream_room(tunnel->stream);
    return room < PIECE ? room : PIECE;
}

/* False when the tunnel is gone. */
static bool pull(struct tunnel *tunnel)
{
    size_t size = allowance(tunnel);
    if (size == 0)
        return true;
    ssize_t got = read(tunnel->watch.fd, piece, size);
    if (got < 0 && (errno == EINTR || errno == EAGAIN))
        return true;
    if (got < 0) {
        break_off(tunnel, errno);
        return false;
    }
    if (got == 0) {
        tunnel->output_ended = true;
        stream_eof(tunnel->stream, CHANNEL_STDOUT);
    }
    stream_send(tunnel->stream, CHANNEL_STDOUT, piece, (size_t)got);
    return true;
}

static void settle(struct tunnel *tunnel)
{
    if (tunnel->broken && tunnel->output_ended) {
        break_off(tunnel, tunnel->broken);
        return;
    }
    if (tunnel->input_told && tunnel->output_ended) {
        end_with(tunnel, &(struct outcome){0});
        return;
    }
    uint32_t events = allowance(tunnel) > 0 ? EPOLLIN : 0;
    if (buf_length(&tunnel->waiting) > 0)
        events |= EPOLLOUT;
    loop_watch_change(&tunnel->watch, events);
}

static void advance(struct tunnel *tunnel, bool reads)
{
    if (!tunnel->connected)
        return;
    push(tunnel);
    if (!reads || pull(tunnel))
        settle(tunnel);
}

static void on_connected_ready(void *owner, uint32_t events)
{
    advance(owner, (events & ~(uint32_t)EPOLLOUT) != 0);
}

/* The connection is there; bytes that came early follow. */
static void begin(struct tunnel *tunnel, int fd)
{
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    tunnel->connected = true;
    loop_watch_stop(&tunnel->watch);
    loop_watch_start(&tunnel->watch, fd, EPOLLIN, on_connected_ready, tunnel);
    stream_event(tunnel->stream, &(struct buf){0});
    advance(tunnel, false);
}

/* Saves a copy of what the program takes at once. Failures are met again by push(). */
static size_t push_now(struct tunnel *tunnel, const uint8_t *bytes, size_t length)
{
    if (!tunnel->connected || buf_length(&tunnel->waiting) > 0)
        return 0;
    ssize_t put = write(tunnel->watch.fd, bytes, length);
    if (put <= 0)
        return 0;
    stream_grant(tunnel->stream, (size_t)put);
    return (size_t)put;
}

static void on_data(struct stream *stream, uint8_t channel, const uint8_t *bytes, size_t length)
{
    struct tunnel *tunnel = stream->owner;
    (void)channel;
    if (tunnel->input_ended) {
        stream_grant(stream, length);
        return;
    }
    size_t taken = push_now(tunnel, bytes, length);
    if (taken == length)
        return;
    buf_append(&tunnel->waiting, bytes + taken, length - taken);
    advance(tunnel, false);
}

static void on_eof(struct stream *stream, uint8_t channel)
{
    struct tunnel *tunnel = stream->owner;
    (void)channel;
    tunnel->input_ended = true;
    advance(tunnel, false);
}

static void on_room(struct stream *stream)
{
    advance(stream->owner, true);
}

static void unpark(const struct tunnel *tunnel)
{
    for (struct listener *listener = listeners; listener; listener = listener->next) {
        for (struct tunnel **at = &listener->parked; *at; at = &(*at)->next) {
            if (*at != tunnel)
                continue;
            *at = tunnel->next;
            if (!listener->parked)
                loop_watch_change(&listener->watch, 0);
            return;
        }
    }
}

static void on_control(struct stream *stream, const uint8_t *fields, uint32_t length)
{
    struct exec_control control;
    struct error err;
    if (exec_control_parse(&control, fields, length, &err) < 0 || !control.cancel)
        return;
    unpark(stream->owner);
    end_with(stream->owner, &(struct outcome){.verdict = VERDICT_CANCELLED});
}

static const struct stream_events events = {
    .data = on_data, .eof = on_eof, .control = on_control, .room = on_room};

struct place {
    uint64_t port, address;
};

static int take_place(void *owner, const struct field *field, struct error *err)
{
    struct place *place = owner;
    if (field->tag == TAG_ADDRESS)
        return field_number(field, &place->address, err);
    return field->tag == TAG_PORT ? field_number(field, &place->port, err) : 0;
}

static int check_place(const struct place *place, struct error *err)
{
    if (place->port < 1 || place->port > UINT16_MAX)
        return error_set(err, ERROR_INVALID, "there is no port %llu",
                         (unsigned long long)place->port);
    if (place->address >> 24 != IN_LOOPBACKNET)
        return error_set(err, ERROR_INVALID, "this is no address of the sandbox's own");
    return 0;
}

/* NULL when the request makes no sense; the stream is over then. */
static struct tunnel *make_tunnel(struct stream *stream, const uint8_t *fields, uint32_t length)
{
    struct error err;
    struct place place = {.address = INADDR_LOOPBACK};
    int result = fields_each(fields, length, take_place, &place, &err);
    if (result == 0)
        result = check_place(&place, &err);
    if (result < 0) {
        stream_end_error(stream, &err);
        return NULL;
    }
    struct tunnel *tunnel = xcalloc(1, sizeof *tunnel);
    tunnel->stream = stream;
    tunnel->watch.fd = -1;
    tunnel->port = (uint16_t)place.port;
    tunnel->address = (uint32_t)place.address;
    stream->events = &events;
    stream->owner = tunnel;
    return tunnel;
}

/* ---- CONNECT ----------------------------------------------------------------------------- */

static int dial(const struct tunnel *tunnel, int fd)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET,
                             .sin_port = htons(tunnel->port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6,
                              .sin6_port = htons(tunnel->port),
                              .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    return tunnel->second_try ? connect(fd, (struct sockaddr *)&v6, sizeof v6)
                              : connect(fd, (struct sockaddr *)&v4, sizeof v4);
}

static void try_connect(struct tunnel *tunnel);

static void connect_failed(struct tunnel *tunnel)
{
    struct error err;
    loop_watch_stop(&tunnel->watch);
    fd_close(tunnel->watch.fd);
    tunnel->watch.fd = -1;
    if (!tunnel->second_try) {
        tunnel->second_try = true;
        try_connect(tunnel);
        return;
    }
    error_set(&err, ERROR_UNAVAILABLE, "nothing listens on port %u inside", tunnel->port);
    error_hint(&err, "start the server inside first; it may listen on 127.0.0.1");
    end_with_error(tunnel, &err);
}

static void on_dialled(void *owner, uint32_t ready)
{
    (void)ready;
    struct tunnel *tunnel = owner;
    int number = 0;
    socklen_t size = sizeof number;
    getsockopt(tunnel->watch.fd, SOL_SOCKET, SO_ERROR, &number, &size);
    if (number)
        connect_failed(tunnel);
    else
        begin(tunnel, tunnel->watch.fd);
}

static void try_connect(struct tunnel *tunnel)
{
    int fd = socket(tunnel->second_try ? AF_INET6 : AF_INET,
                    SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    tunnel->watch.fd = fd;
    if (fd < 0 || (dial(tunnel, fd) < 0 && errno != EINPROGRESS))
        connect_failed(tunnel);
    else
        loop_watch_start(&tunnel->watch, fd, EPOLLOUT, on_dialled, tunnel);
}

void connect_open(struct stream *stream, const uint8_t *fields, uint32_t length)
{
    struct tunnel *tunnel = make_tunnel(stream, fields, length);
    if (tunnel)
        try_connect(tunnel);
}

/* ---- ACCEPT ------------------------------------------------------------------------------ */

static void on_arrival(void *owner, uint32_t ready)
{
    (void)ready;
    struct listener *listener = owner;
    struct tunnel *tunnel = listener->parked;
    int fd = accept4(listener->watch.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0 && (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED))
        return;
    int number = errno;
    unpark(tunnel);
    if (fd < 0)
        break_off(tunnel, number);
    else
        begin(tunnel, fd);
}

static struct listener *listen_on(uint32_t local, uint16_t port, struct error *err)
{
    int on = 1;
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(local)};
    cleanup_fd int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0 ||
        bind(fd, (struct sockaddr *)&address, sizeof address) < 0 || listen(fd, BACKLOG) < 0) {
        error_errno(err, errno, "cannot listen on port %u inside", port);
        return NULL;
    }
    struct listener *listener = xcalloc(1, sizeof *listener);
    listener->port = port;
    listener->address = local;
    listener->next = listeners;
    listeners = listener;
    loop_watch_start(&listener->watch, steal_fd(&fd), 0, on_arrival, listener);
    return listener;
}

void accept_open(struct stream *stream, const uint8_t *fields, uint32_t length)
{
    struct error err;
    struct tunnel *tunnel = make_tunnel(stream, fields, length);
    if (!tunnel)
        return;
    struct listener *listener = listeners;
    while (listener && (listener->port != tunnel->port || listener->address != tunnel->address))
        listener = listener->next;
    if (!listener)
        listener = listen_on(tunnel->address, tunnel->port, &err);
    if (!listener) {
        end_with_error(tunnel, &err);
        return;
    }
    struct tunnel **last = &listener->parked;
    while (*last)
        last = &(*last)->next;
    *last = tunnel;
    loop_watch_change(&listener->watch, EPOLLIN);
}
