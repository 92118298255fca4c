/*
 * A client of one keeper, on a libuv loop: any number of calls at once, each with its output
 * streamed as it comes. This is what the layers above use a sandbox with.
 */
#pragma once

#include "proto/outcome.h"
#include "proto/protocol.h"
#include "sandbox/link.h"

struct client_call;

struct call_handlers {
    /* Bytes of a channel. The sandbox may send on after call_consumed. NULL: they are thrown away.
     */
    void (*data)(struct client_call *call, enum channel channel, const uint8_t *bytes,
                 size_t length);
    /* No more comes on that channel. May be NULL. */
    void (*eof)(struct client_call *call, enum channel channel);
    /* Something happened to it: the fields of an EVENT. May be NULL. */
    void (*event)(struct client_call *call, const uint8_t *fields, uint32_t length);
    /* More input may be sent: call_room is not 0 any more. May be NULL. */
    void (*room)(struct client_call *call);
    /* The call is over and gone when this returns. */
    void (*end)(struct client_call *call, const struct outcome *outcome);
};

struct client_call {
    uint32_t stream;
    uint64_t room;        /* bytes of input the other side takes now */
    uint32_t owed;        /* bytes taken, credit not returned yet */
    const uint8_t *given; /* input that waits for room */
    size_t given_length;
    bool giving;
    const struct call_handlers *handlers;
    void *context;
    struct sandbox_client *client;
    struct client_call *next;
};

struct sandbox_client {
    struct link link;
    struct client_call *calls;
    uint32_t next_stream;
    bool has_call; /* LAUNCH_CALL_STREAM is under way, and nobody has joined it yet */
    /* The connection is gone and all calls have ended. May be NULL. */
    void (*closed)(struct sandbox_client *client);
    void *context;
};

/* Takes ownership of the socket. */
int client_open(struct sandbox_client *client, uv_loop_t *loop, int fd, struct error *err);
void client_close(struct sandbox_client *client);
/* Closes it, and ends all calls with the error. */
void client_abandon(struct sandbox_client *client, const struct error *err);

/* `fields` holds the operation's arguments. The call belongs to the caller until its end. */
void call_start(struct sandbox_client *client, struct client_call *call, enum operation operation,
                const struct buf *fields, const struct call_handlers *handlers, void *context);
/* The same with all of its input, as bytes that go along with a start: see launch_keeper. */
void call_frames(struct buf *out, enum operation operation, const struct buf *fields,
                 const void *input, size_t length);
/* Joins an operation that is under way already, as OP_START is after launch_keeper. */
void call_join(struct sandbox_client *client, struct client_call *call, uint32_t stream,
               const struct call_handlers *handlers, void *context);
/* The same for the one that came along with the start: has_call is true before, and not after. */
void call_join_first(struct sandbox_client *client, struct client_call *call,
                     const struct call_handlers *handlers, void *context);

/* All of the call's input, sent as there is room, and its end. It must last as long as the call. */
void call_give(struct client_call *call, const void *bytes, size_t length);
/* At most call->room bytes. */
void call_send(struct client_call *call, const void *bytes, size_t length);
void call_send_eof(struct client_call *call);
/* Gives credit back for bytes that were dealt with. */
void call_consumed(struct client_call *call, size_t length);
void call_signal(struct client_call *call, int number);
void call_resize(struct client_call *call, unsigned rows, unsigned cols);
void call_cancel(struct client_call *call);
/* Ends the call but not the command, where that can go on. */
void call_detach(struct client_call *call);
