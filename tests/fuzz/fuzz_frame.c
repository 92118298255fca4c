/*
 * Feeds arbitrary bytes to the host's readers of frames, fields, outcomes and collected output, as
 * a sandbox that was taken over would. Every frame that is accepted must also survive being written
 * and read again, and every answer being written as JSON.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "proto/fields.h"
#include "proto/frame.h"
#include "proto/outcome.h"
#include "sandbox/collect.h"

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

static void read_outcome(const struct frame *frame, struct collection *collection)
{
    struct error err;
    struct outcome outcome;
    if (outcome_read(frame, &outcome, &err) == 0) {
        struct buf again = {0};
        outcome_append(&again, frame->stream, &outcome);
        buf_free(&again);
        json_t *json = collect_json(collection, &outcome);
        char *text = json ? json_dumps(json, 0) : NULL;
        free(text);
        json_decref(json);
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
    struct collection collection = {0};
    collect_begin(&collection);
    buf_append(&in, data, size);
    while ((length = frame_decode(&in, &frame, &err)) > 0) {
        uint32_t amount;
        (void)frame_credit(&frame, &amount, &err);
        walk_fields(&frame);
        if (frame.type == FRAME_DATA && frame.detail < CHANNEL_COUNT)
            collect_take(&collection, frame.detail, frame.payload, frame.length);
        read_outcome(&frame, &collection);
        write_and_read(&frame);
        buf_consume(&in, (size_t)length);
    }
    collect_finish(&collection);
    collect_free(&collection);
    buf_free(&in);
    return 0;
}
