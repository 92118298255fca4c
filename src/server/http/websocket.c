#include "server/http/websocket.h"

#include <string.h>
#include <wslay/wslay.h>

#include "base/mem.h"
#include "server/http/handshake.h"

#define CLOSE_MS 5000
/* A message may come in so many pieces; each costs memory of its own. */
#define FRAGMENTS_MAX 4096
/* So much of our answers to pings may wait before no more is read. */
#define WAITING_MAX (1u << 20)

/* A close frame. */
static const uint8_t protocol_error[] = {0x88, 2, WSLAY_CODE_PROTOCOL_ERROR >> 8,
                                         WSLAY_CODE_PROTOCOL_ERROR & 0xff};

struct websocket {
    struct http_request *request; /* NULL: it is over */
    const struct websocket_handlers *handlers;
    void *context;
    wslay_event_context_ptr frames;
    uv_timer_t timer;
    const uint8_t *in; /* being read */
    size_t in_length;
    struct buf out;
    size_t held;    /* bytes of the pipe that are not consumed */
    size_t pending; /* bytes of messages that are not */
    unsigned fragments;
    bool heard;      /* something came since the last ping */
    bool is_left;    /* its user has closed it */
    bool is_reading; /* further up the stack */
    bool is_broken;  /* what came is no frame */
};

/* ---- its end ------------------------------------------------------------------------------- */

static void on_timer_closed(uv_handle_t *handle)
{
    struct websocket *socket = handle->data;
    wslay_event_context_free(socket->frames);
    buf_free(&socket->out);
    free(socket);
}

/* The request is not ours any more. */
static void finish(struct websocket *socket, unsigned code)
{
    socket->request = NULL;
    uv_close((uv_handle_t *)&socket->timer, on_timer_closed);
    if (!socket->is_left)
        socket->handlers->on_close(socket, code);
}

static void on_gone(struct http_request *request)
{
    finish(request->context, WEBSOCKET_LOST);
}

static void drop(struct websocket *socket)
{
    struct http_request *request = socket->request;
    finish(socket, WEBSOCKET_LOST);
    http_stream_break(request);
}

/* ---- in and out ---------------------------------------------------------------------------- */

static void release(struct websocket *socket)
{
    size_t held = socket->held;
    if (held == 0 || socket->pending >= HTTP_WINDOW || http_waiting(socket->request) >= WAITING_MAX)
        return;
    socket->held = 0;
    http_consumed(socket->request, held);
}

/* Both sides have said that it is over, or ours has after what it got. */
static bool is_over(const struct websocket *socket)
{
    if (socket->is_broken)
        return true;
    return wslay_event_get_close_sent(socket->frames) &&
           (!wslay_event_get_read_enabled(socket->frames) ||
            wslay_event_get_close_received(socket->frames));
}

/* Writes what is queued; perhaps that was the last. */
static void settle(struct websocket *socket)
{
    struct http_request *request = socket->request;
    if (!request || socket->is_reading)
        return;
    if (!socket->is_broken)
        wslay_event_send(socket->frames);
    if (buf_length(&socket->out) > 0) {
        http_pipe_send(request, buf_data(&socket->out), buf_length(&socket->out));
        buf_free(&socket->out);
    }
    if (!is_over(socket)) {
        release(socket);
        return;
    }
    unsigned code = WSLAY_CODE_PROTOCOL_ERROR;
    if (wslay_event_get_close_received(socket->frames))
        code = wslay_event_get_status_code_received(socket->frames);
    else if (!socket->is_broken)
        code = wslay_event_get_status_code_sent(socket->frames);
    request->gone = NULL;
    request->on_body = NULL;
    request->drained = NULL;
    finish(socket, code);
    http_pipe_end(request);
}

/* The client has broken a rule: it is told, and no more is taken from it. */
static void fail(struct websocket *socket, uint16_t code)
{
    wslay_event_queue_close(socket->frames, code, NULL, 0);
    wslay_event_shutdown_read(socket->frames);
}

static void on_bytes(struct http_request *request, const uint8_t *bytes, size_t length)
{
    struct websocket *socket = request->context;
    socket->in = bytes;
    socket->in_length = length;
    socket->held += length;
    socket->heard = true;
    socket->is_reading = true;
    int result = wslay_event_recv(socket->frames);
    socket->is_reading = false;
    /* The library would close without a code. */
    if (result < 0)
        buf_append(&socket->out, protocol_error, sizeof protocol_error);
    socket->is_broken = result < 0;
    settle(socket);
}

static void on_drained(struct http_request *request)
{
    struct websocket *socket = request->context;
    if (!socket->is_left && socket->handlers->on_drained)
        socket->handlers->on_drained(socket);
    if (socket->request)
        release(socket);
}

static ssize_t take(wslay_event_context_ptr frames, uint8_t *room, size_t size, int flags,
                    void *owner)
{
    (void)flags;
    struct websocket *socket = owner;
    if (socket->in_length == 0) {
        wslay_event_set_error(frames, WSLAY_ERR_WOULDBLOCK);
        return -1;
    }
    if (size > socket->in_length)
        size = socket->in_length;
    memcpy(room, socket->in, size);
    socket->in += size;
    socket->in_length -= size;
    return (ssize_t)size;
}

static ssize_t put(wslay_event_context_ptr frames, const uint8_t *bytes, size_t length, int flags,
                   void *owner)
{
    (void)frames, (void)flags;
    struct websocket *socket = owner;
    buf_append(&socket->out, bytes, length);
    return (ssize_t)length;
}

static void on_frame(wslay_event_context_ptr frames,
                     const struct wslay_event_on_frame_recv_start_arg *frame, void *owner)
{
    (void)frames;
    struct websocket *socket = owner;
    /* Half a code. */
    if (frame->opcode == WSLAY_CONNECTION_CLOSE && frame->payload_length == 1)
        fail(socket, WSLAY_CODE_PROTOCOL_ERROR);
    if (wslay_is_ctrl_frame(frame->opcode))
        return;
    socket->fragments = frame->fin ? 0 : socket->fragments + 1;
    if (socket->fragments > FRAGMENTS_MAX)
        fail(socket, WSLAY_CODE_MESSAGE_TOO_BIG);
}

static void on_message(wslay_event_context_ptr frames,
                       const struct wslay_event_on_msg_recv_arg *message, void *owner)
{
    (void)frames;
    struct websocket *socket = owner;
    if (wslay_is_ctrl_frame(message->opcode) || socket->is_left)
        return;
    socket->pending += message->msg_length;
    socket->handlers->on_message(socket, message->opcode == WSLAY_TEXT_FRAME, message->msg,
                                 message->msg_length);
}

static void on_timer(uv_timer_t *timer)
{
    struct websocket *socket = timer->data;
    struct wslay_event_msg ping = {.opcode = WSLAY_PING};
    if (socket->is_left || !socket->heard) {
        drop(socket);
        return;
    }
    socket->heard = false;
    wslay_event_queue_msg(socket->frames, &ping);
    settle(socket);
}

static void on_server_ends(struct http_request *request)
{
    struct websocket *socket = request->context;
    wslay_event_queue_close(socket->frames, WEBSOCKET_GOING_AWAY, NULL, 0);
    uv_timer_start(&socket->timer, on_timer, CLOSE_MS, 0);
    socket->heard = false;
    settle(socket);
}

/* ---- for its user -------------------------------------------------------------------------- */

static struct websocket *make(struct http_request *request, size_t message_max)
{
    static const struct wslay_event_callbacks callbacks = {
        .recv_callback = take,
        .send_callback = put,
        .on_frame_recv_start_callback = on_frame,
        .on_msg_recv_callback = on_message,
    };
    struct websocket *socket = xcalloc(1, sizeof *socket);
    socket->request = request;
    socket->heard = true;
    if (wslay_event_context_server_init(&socket->frames, &callbacks, socket) != 0)
        abort();
    wslay_event_config_set_max_recv_msg_length(socket->frames, message_max);
    uv_timer_init(request->server->loop, &socket->timer);
    socket->timer.data = socket;
    uint64_t ping_ms = request->server->limits.ping_ms;
    uv_timer_start(&socket->timer, on_timer, ping_ms, ping_ms);
    return socket;
}

struct websocket *websocket_accept(struct http_request *request, const char *protocol,
                                   size_t message_max, const struct websocket_handlers *handlers,
                                   void *context)
{
    struct error err;
    char accept[HANDSHAKE_ACCEPT_SIZE];
    int status = handshake_check(request, accept, &err);
    if (status) {
        http_answer_error(request, status, &err);
        return NULL;
    }
    struct websocket *socket = make(request, message_max);
    socket->handlers = handlers;
    socket->context = context;
    request->context = socket;
    request->gone = on_gone;
    request->drained = on_drained;
    request->on_body = on_bytes;
    request->on_drain = on_server_ends;
    http_add_header(request, "Sec-WebSocket-Accept", accept);
    if (protocol && header_lists(request, "Sec-WebSocket-Protocol", protocol))
        http_add_header(request, "Sec-WebSocket-Protocol", protocol);
    http_pipe_begin(request, "websocket");
    return socket;
}

void *websocket_context(const struct websocket *socket)
{
    return socket->context;
}

void websocket_send(struct websocket *socket, bool is_text, const void *bytes, size_t length)
{
    struct wslay_event_msg message = {.opcode = is_text ? WSLAY_TEXT_FRAME : WSLAY_BINARY_FRAME,
                                      .msg = bytes,
                                      .msg_length = length};
    wslay_event_queue_msg(socket->frames, &message);
    settle(socket);
}

size_t websocket_waiting(const struct websocket *socket)
{
    return http_waiting(socket->request);
}

void websocket_consumed(struct websocket *socket, size_t length)
{
    socket->pending -= length;
    if (!socket->is_reading)
        release(socket);
}

void websocket_close(struct websocket *socket, unsigned code, const char *reason)
{
    socket->is_left = true;
    socket->pending = 0;
    wslay_event_queue_close(socket->frames, (uint16_t)code, (const uint8_t *)reason,
                            strlen(reason));
    uv_timer_start(&socket->timer, on_timer, CLOSE_MS, 0);
    settle(socket);
}
