/*
 * Bytes between a request and a call of a sandbox, in either direction as fast as the slower end
 * takes them. The request's on_body and on_body_end give what the client sends, the call's `room`
 * passes it on; what the call sends is paid for when the client has taken it. A WebSocket can take
 * the place of the request.
 */
#pragma once

#include "sandbox/client.h"
#include "server/http/http.h"
#include "server/http/websocket.h"

struct relay {
    struct http_request *request; /* both NULL: the client has left */
    struct websocket *socket;
    struct client_call call;
    bool is_calling;    /* the call has begun and not ended */
    struct buf waiting; /* from the client, until there is room */
    size_t own;         /* so much of that is ours, not the client's */
    bool input_ended;
    size_t unpaid; /* bytes of the call's that the client has yet to take */
};

/* From the client; consumed when they are sent. */
void relay_take(struct relay *relay, const uint8_t *bytes, size_t length);
/* In front of what the client sends next. */
void relay_add(struct relay *relay, const void *bytes, size_t length);
void relay_end(struct relay *relay);
void relay_room(struct relay *relay);
/* So many bytes of the call went to the client. */
void relay_passed(struct relay *relay, size_t length);
/* The client has taken all. */
void relay_drained(struct relay *relay);
/* The client has left: the call is cancelled. */
void relay_left(struct relay *relay);
