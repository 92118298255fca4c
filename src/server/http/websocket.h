/*
 * WebSocket, RFC 6455, on the server's side. Messages are taken whole, up to a size; text is
 * checked to be UTF-8. Pings are answered, and sent to clients that are silent: those that go on
 * being silent are let go.
 *
 * A socket belongs to its user from websocket_accept until on_close was called, because the client
 * has closed it, left or broken a rule, or until websocket_close. Afterwards it must not be used;
 * any call of a function here may be followed by on_close before it returns.
 */
#pragma once

#include "server/http/http.h"

#define WEBSOCKET_DONE 1000
#define WEBSOCKET_GOING_AWAY 1001
#define WEBSOCKET_LOST 1006 /* of on_close only: without a word */
#define WEBSOCKET_POLICY 1008
#define WEBSOCKET_INTERNAL 1011

struct websocket;

struct websocket_handlers {
    /* The client may send on after websocket_consumed. */
    void (*on_message)(struct websocket *socket, bool is_text, const uint8_t *bytes, size_t length);
    void (*on_close)(struct websocket *socket, unsigned code);
    /* The client has taken all. May be NULL. */
    void (*on_drained)(struct websocket *socket);
};

/*
 * Answers the handshake. `protocol` is chosen where the client offers protocols; NULL: none. NULL
 * is returned when the request is no handshake; it is answered then.
 */
struct websocket *websocket_accept(struct http_request *request, const char *protocol,
                                   size_t message_max, const struct websocket_handlers *handlers,
                                   void *context);
void *websocket_context(const struct websocket *socket);
void websocket_send(struct websocket *socket, bool is_text, const void *bytes, size_t length);
/* Bytes that the client has yet to take. */
size_t websocket_waiting(const struct websocket *socket);
/* So many bytes of messages are dealt with. */
void websocket_consumed(struct websocket *socket, size_t length);
/* The reason is a short text. */
void websocket_close(struct websocket *socket, unsigned code, const char *reason);
