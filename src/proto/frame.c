#include "proto/frame.h"

#include <string.h>

#include "proto/wire.h"

void frame_append(struct buf *out, uint32_t stream, enum frame_type type, uint8_t detail,
                  const void *payload, size_t length)
{
    uint8_t *at = buf_reserve(out, FRAME_HEADER + length);
    wire_put32(at, (uint32_t)length);
    wire_put32(at + 4, stream);
    at[8] = (uint8_t)type;
    at[9] = detail;
    at[10] = at[11] = 0;
    if (length)
        memcpy(at + FRAME_HEADER, payload, length);
    buf_commit(out, FRAME_HEADER + length);
}

int frame_decode(const struct buf *in, struct frame *frame, struct error *err)
{
    if (buf_length(in) < FRAME_HEADER)
        return 0;
    const uint8_t *at = buf_data(in);
    uint32_t length = wire_get32(at);
    if (length > FRAME_MAX)
        return error_set(err, ERROR_PROTOCOL, "frame of %u bytes, at most %u are allowed", length,
                         FRAME_MAX);
    if (at[8] < FRAME_HELLO || at[8] >= FRAME_TYPE_COUNT)
        return error_set(err, ERROR_PROTOCOL, "unknown frame type %u", at[8]);
    if (at[10] || at[11])
        return error_set(err, ERROR_PROTOCOL, "reserved bytes of a frame are not zero");
    if (buf_length(in) - FRAME_HEADER < length)
        return 0;
    *frame = (struct frame){
        .stream = wire_get32(at + 4),
        .type = at[8],
        .detail = at[9],
        .payload = at + FRAME_HEADER,
        .length = length,
    };
    return (int)(FRAME_HEADER + length);
}

int frame_credit(const struct frame *frame, uint32_t *amount, struct error *err)
{
    if (frame->length != 4)
        return error_set(err, ERROR_PROTOCOL, "credit frame of %u bytes", frame->length);
    *amount = wire_get32(frame->payload);
    return 0;
}

void frame_append_credit(struct buf *out, uint32_t stream, uint32_t amount)
{
    uint8_t bytes[4];
    wire_put32(bytes, amount);
    frame_append(out, stream, FRAME_CREDIT, 0, bytes, sizeof bytes);
}
