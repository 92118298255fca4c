/*
 * Frames: the unit in which client, keeper and agent talk. A fixed header of 12 bytes, little
 * endian, then the payload:
 *
 *     u32 length of the payload   (at most FRAME_MAX)
 *     u32 stream                  (one operation; 0 is the connection itself)
 *     u8  type                    (enum frame_type)
 *     u8  detail                  (of OPEN the operation, of DATA and EOF the channel)
 *     u16 zero
 *
 * The decoder trusts nothing: it is fed bytes from inside sandboxes.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

#define FRAME_HEADER 12
#define FRAME_MAX (256u * 1024)

enum frame_type {
    FRAME_HELLO = 1, /* fields: who speaks and in which version */
    FRAME_OPEN,      /* starts an operation on a new stream; fields: its arguments */
    FRAME_DATA,      /* bytes of one channel; costs credit */
    FRAME_EOF,       /* no more bytes on this channel */
    FRAME_CREDIT,    /* u32: how many more bytes of data the other side may send */
    FRAME_CONTROL,   /* fields: something to do to a running operation (signal, size, cancel) */
    FRAME_EVENT,     /* fields: something that happened to a running operation (its process id) */
    FRAME_END,       /* the operation is over, the stream is gone; fields: its outcome */
    FRAME_TYPE_COUNT,
};

struct frame {
    uint32_t stream;
    enum frame_type type;
    uint8_t detail;
    const uint8_t *payload;
    uint32_t length;
};

/* Appends a whole frame. length must not exceed FRAME_MAX. */
void frame_append(struct buf *out, uint32_t stream, enum frame_type type, uint8_t detail,
                  const void *payload, size_t length);

/*
 * Reads the frame at the front of `in` without consuming it. Returns its full size (header
 * included), 0 when more bytes are needed, or a negative error for bytes that are no frame. The
 * payload points into `in`: consume the returned size when done with it.
 */
int frame_decode(const struct buf *in, struct frame *frame, struct error *err);

/* The amount in a FRAME_CREDIT. */
int frame_credit(const struct frame *frame, uint32_t *amount, struct error *err);
void frame_append_credit(struct buf *out, uint32_t stream, uint32_t amount);
