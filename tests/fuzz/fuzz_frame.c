/*
 * Feeds arbitrary bytes to the readers of frames, fields and outcomes, as a sandbox that was taken
 * over would. Every frame that is accepted must also survive being written and read again.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "proto/fields.h"
#include "proto/frame.h"
#include "proto/outcome.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void walk_fields(const struct frame *frame)
{
    struct error err;
    struct field field;
    uint32_t at = 0;
    while (fields_next(frame->payload, frame->length, &at, &field, &err) > 0) {
        char *text = NULL;
        uint64_t number;
        assert(field.length <= frame->length && at <= frame->length);
        if (field_text(&field, &text, &err) == 0)
            assert(strlen(text) == field.length);
        free(text);
        (void)field_number(&field, &number, &err);
    }
}

static void read_outcome(const struct frame *frame)
{
    struct error err;
    struct outcome outcome;
    if (outcome_read(frame, &outcome, &err) == 0) {
        struct buf again = {0};
        outcome_append(&again, frame->stream, &outcome);
        buf_free(&again);
    }
    outcome_free(&outcome);
}

static void write_and_read(const struct frame *frame)
{
    struct error err;
    struct frame copy;
    struct buf out = {0};
    frame_append(&out, frame->stream, frame->type, frame->detail, frame->payload, frame->length);
    assert(frame_decode(&out, &copy, &err) == (int)(FRAME_HEADER + frame->length));
    assert(copy.stream == frame->stream && copy.type == frame->type &&
           copy.length == frame->length);
    buf_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buf in = {0};
    struct error err;
    struct frame frame;
    int length;
    buf_append(&in, data, size);
    while ((length = frame_decode(&in, &frame, &err)) > 0) {
        uint32_t amount;
        (void)frame_credit(&frame, &amount, &err);
        walk_fields(&frame);
        read_outcome(&frame);
        write_and_read(&frame);
        buf_consume(&in, (size_t)length);
    }
    buf_free(&in);
    return 0;
}
