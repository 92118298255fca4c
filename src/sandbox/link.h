/*
 * A connection that carries frames, on a libuv loop. Both ends of every conversation on the host
 * use it: the keeper towards clients and towards the agent, clients towards keepers.
 */
#pragma once

#include <stdbool.h>
#include <uv.h>

#include "base/buf.h"
#include "base/error.h"
#include "proto/frame.h"
#include "sandbox/writer.h"

struct link;

struct link_handlers {
    /* A whole frame; its payload is gone when the handler returns. */
    void (*frame)(struct link *link, const struct frame *frame);
    /* The other side left (reason->code ERROR_NONE) or broke the protocol. Comes at most once and
     * not after link_close; the link must be closed then. */
    void (*lost)(struct link *link, const struct error *reason);
    /* The link is closed and may be freed. */
    void (*closed)(struct link *link);
};

struct link {
    uv_pipe_t pipe;
    uv_prepare_t before_waiting;
    struct writer writer;
    struct buf in;
    uint64_t received; /* bytes so far */
    struct buf held;   /* see link_hold */
    bool is_held;
    bool is_closing;
    bool close_when_written;
    const struct link_handlers *handlers;
    void *owner;
};

/* Takes ownership of the connected socket fd. */
int link_open(struct link *link, uv_loop_t *loop, int fd, const struct link_handlers *handlers,
              void *owner, struct error *err);
void link_send(struct link *link, uint32_t stream, enum frame_type type, uint8_t detail,
               const void *payload, size_t length);
/* Sends frames that were put together elsewhere. */
void link_send_raw(struct link *link, const struct buf *frames);
void link_send_credit(struct link *link, uint32_t stream, uint32_t amount);
/* What was sent leaves now, not when the loop waits next. */
void link_flush(struct link *link);
/* What is sent from now on waits; what was sent before does not. */
void link_hold(struct link *link);
void link_release(struct link *link);
/* Bytes that arrived before the link was opened. */
void link_preload(struct link *link, const struct buf *bytes);
void link_close(struct link *link);
/* Closes once everything sent is written. */
void link_finish(struct link *link);
