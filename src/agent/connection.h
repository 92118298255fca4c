/*
 * The one connection of the agent: frames in and out, streams, credit. Frames are queued and
 * written when the loop has dealt with the events at hand. Nothing is queued without bound:
 * whoever sends DATA asks stream_room first and waits for `room` when there is none.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "proto/frame.h"
#include "proto/outcome.h"
#include "proto/protocol.h"

struct stream;

/* What an operation answers to. Any of them may end the stream. */
struct stream_events {
    void (*data)(struct stream *stream, uint8_t channel, const uint8_t *bytes, size_t length);
    void (*eof)(struct stream *stream, uint8_t channel);
    void (*control)(struct stream *stream, const uint8_t *fields, uint32_t length);
    void (*room)(struct stream *stream);
    /* See connection_hold: this is the copy, and nobody is at the other end any more. What was
     * asked for may go on. NULL: it is cancelled. */
    void (*forgotten)(struct stream *stream);
};

struct stream {
    uint32_t id;
    uint8_t operation; /* enum operation, or a number from a client that knows more */
    const struct stream_events *events;
    void *owner;
    uint32_t send_credit;
    uint32_t receive_credit;
    uint32_t ungranted;    /* dealt with, and not yet told */
    uint64_t output_limit; /* bytes of stdout and stderr that are passed on */
    uint64_t output_bytes; /* …and that there were */
    uint64_t record_bytes; /* of results passed on */
    unsigned records_dropped;
    bool forgotten; /* says nothing any more */
    struct stream *next;
};

struct connection_events {
    /* Takes the stream over: sets its events and owner, or ends it. */
    void (*open)(struct stream *stream, const uint8_t *fields, uint32_t length);
    /* The other side has gone (err->code ERROR_NONE) or broke the rules. */
    void (*closed)(const struct error *err);
};

/* keeps: an end of file is no end, the other side may come back (a virtio port). */
void connection_open(int fd, bool keeps, const struct connection_events *events);
void connection_hello(void);
void connection_flush(void);
/* Blocks until everything queued is written; for the last words before power off. */
void connection_flush_blocking(void);

/*
 * Says that the machine may be copied now, as an EVENT of this stream, and nothing after that until
 * a frame comes. If it is OP_ADOPT, this is the copy: other streams belong to the original and are
 * forgotten. Otherwise this is the original, and the stream ends.
 */
void connection_hold(struct stream *stream);

/* How many bytes of DATA may be sent now. */
size_t stream_room(const struct stream *stream);
/* The same for stdout and stderr: what is over the limit goes nowhere and needs no room. */
size_t stream_output_room(const struct stream *stream);
void stream_send(struct stream *stream, enum channel channel, const void *bytes, size_t length);
/* No more bytes on this channel. */
void stream_eof(struct stream *stream, enum channel channel);
/* Asked before each result: false when the call has had its share and this one is to be dropped. */
bool stream_takes_record(struct stream *stream, size_t length);
void stream_event(struct stream *stream, const struct buf *fields);
/* Lets the other side send that many more bytes. */
void stream_grant(struct stream *stream, size_t amount);
/* Both end the operation; the stream is gone afterwards. */
void stream_end(struct stream *stream, const struct outcome *outcome);
void stream_end_error(struct stream *stream, const struct error *err);
