#include "server/relay.h"

/* So much may wait for a client before the sandbox has to. */
#define WAITING_MAX (256u << 10)

static void consumed(struct relay *relay, size_t length)
{
    if (relay->socket)
        websocket_consumed(relay->socket, length);
    else if (relay->request)
        http_consumed(relay->request, length);
}

static bool is_slow(const struct relay *relay)
{
    if (relay->socket)
        return websocket_waiting(relay->socket) >= WAITING_MAX;
    return relay->request && http_waiting(relay->request) >= WAITING_MAX;
}

static void push(struct relay *relay)
{
    struct client_call *call = &relay->call;
    size_t size = buf_length(&relay->waiting);
    if (!relay->is_calling)
        return;
    if (size > call->room)
        size = (size_t)call->room;
    if (size > 0) {
        call_send(call, buf_data(&relay->waiting), size);
        buf_consume(&relay->waiting, size);
    }
    if (buf_length(&relay->waiting) == 0) {
        buf_free(&relay->waiting);
        if (relay->input_ended)
            call_send_eof(call);
        relay->input_ended = false;
    }
    size_t own = size < relay->own ? size : relay->own;
    relay->own -= own;
    if (size > own)
        consumed(relay, size - own);
}

void relay_take(struct relay *relay, const uint8_t *bytes, size_t length)
{
    buf_append(&relay->waiting, bytes, length);
    push(relay);
}

void relay_add(struct relay *relay, const void *bytes, size_t length)
{
    relay->own += length;
    relay_take(relay, bytes, length);
}

void relay_end(struct relay *relay)
{
    relay->input_ended = true;
    push(relay);
}

void relay_room(struct relay *relay)
{
    push(relay);
}

static void pay(struct relay *relay)
{
    if (relay->is_calling)
        call_consumed(&relay->call, relay->unpaid);
    relay->unpaid = 0;
}

void relay_passed(struct relay *relay, size_t length)
{
    relay->unpaid += length;
    if (!is_slow(relay))
        pay(relay);
}

void relay_drained(struct relay *relay)
{
    pay(relay);
}

void relay_left(struct relay *relay)
{
    relay->request = NULL;
    relay->socket = NULL;
    if (!relay->is_calling)
        return;
    call_cancel(&relay->call);
    pay(relay); /* its end comes behind the output that still waits for credit */
}
