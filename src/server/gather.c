#include "server/gather.h"

#define BYTES_MAX (48u << 20)
#define RECORDS_MAX 20000
/* A line costs some 30 bytes beside its text: room for the allowed output in any form. */
#define LINES_MAX (40u << 20)

static bool is_too_much(const struct gather *gather)
{
    return gather->taken > BYTES_MAX || buf_length(&gather->lines.json) > LINES_MAX ||
           json_array_size(gather->collection.records) > RECORDS_MAX;
}

static void on_data(struct client_call *call, enum channel channel, const uint8_t *bytes,
                    size_t length)
{
    struct gather *gather = call->context;
    call_consumed(call, length);
    if (gather->is_full)
        return;
    gather->taken += length;
    if (channel == CHANNEL_RESULTS)
        collect_take(&gather->collection, channel, bytes, length);
    else
        lines_take(&gather->lines, channel, bytes, length);
    if (channel != CHANNEL_RESULTS && gather->printed)
        gather->printed(gather, bytes, length);
    gather->is_full = is_too_much(gather);
    if (gather->is_full)
        call_cancel(call);
}

static void on_end(struct client_call *call, const struct outcome *outcome)
{
    struct gather *gather = call->context;
    lines_finish(&gather->lines);
    if (!gather->is_full) {
        gather->ended(gather, outcome);
        return;
    }
    struct error err;
    error_set(&err, ERROR_LIMIT, "the answer is too large, so the call was cancelled");
    error_hint(&err, "use a stream, or ask for less at once");
    struct outcome refused = outcome_error(&err);
    gather->ended(gather, &refused);
}

void gather_start(struct gather *gather, struct sandbox_client *client, enum operation operation,
                  const struct buf *fields, const void *input, size_t length)
{
    static const struct call_handlers handlers = {.data = on_data, .end = on_end};
    collect_begin(&gather->collection);
    call_start(client, &gather->collection.call, operation, fields, &handlers, gather);
    call_give(&gather->collection.call, input, length);
}

void gather_free(struct gather *gather)
{
    collect_free(&gather->collection);
    lines_free(&gather->lines);
}
