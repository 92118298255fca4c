#include "sandbox/collect.h"

#include <string.h>

#include "base/utf8.h"

static void add_piece(struct collection *collection, enum channel channel, const struct buf *text)
{
    json_t *piece = json_object();
    json_object_set_new(piece, "stream",
                        json_string(channel == CHANNEL_STDERR ? "stderr" : "stdout"));
    json_object_set_new(piece, "text",
                        json_stringn_nocheck((const char *)buf_data(text), buf_length(text)));
    json_array_append_new(collection->pieces, piece);
}

/* What may be the front of a character waits for the rest of it; at the end it does not. */
static void take_text(struct collection *collection, enum channel channel, const uint8_t *bytes,
                      size_t length, bool is_end)
{
    struct buf *waiting = &collection->unfinished[channel];
    cleanup_buf struct buf text = {0};
    buf_append(waiting, bytes, length);
    size_t whole = buf_length(waiting);
    if (whole == 0)
        return;
    if (!is_end)
        whole -= utf8_unfinished(buf_data(waiting), whole);
    if (utf8_append_valid(&text, buf_data(waiting), whole) > 0)
        collection->invalid = true;
    buf_consume(waiting, whole);
    if (buf_length(&text) > 0)
        add_piece(collection, channel, &text);
}

static void take_records(struct collection *collection, const uint8_t *bytes, size_t length)
{
    records_feed(&collection->incoming, bytes, length);
    for (json_t *record; (record = records_next(&collection->incoming));) {
        const char *type = json_string_value(json_object_get(record, "type"));
        if (type && strcmp(type, "error") == 0) {
            json_decref(collection->error);
            collection->error = record;
        } else {
            json_array_append_new(collection->records, record);
        }
    }
}

void collect_begin(struct collection *collection)
{
    collection->pieces = json_array();
    collection->records = json_array();
}

void collect_take(struct collection *collection, enum channel channel, const uint8_t *bytes,
                  size_t length)
{
    if (channel == CHANNEL_RESULTS)
        take_records(collection, bytes, length);
    else
        take_text(collection, channel, bytes, length, false);
}

void collect_finish(struct collection *collection)
{
    take_text(collection, CHANNEL_STDOUT, NULL, 0, true);
    take_text(collection, CHANNEL_STDERR, NULL, 0, true);
}

static void on_data(struct client_call *call, enum channel channel, const uint8_t *bytes,
                    size_t length)
{
    collect_take(call->context, channel, bytes, length);
    call_consumed(call, length);
}

static void on_end(struct client_call *call, const struct outcome *outcome)
{
    struct collection *collection = call->context;
    collect_finish(collection);
    collection->ended(collection, outcome);
}

void collect_start(struct collection *collection, struct sandbox_client *client,
                   enum operation operation, const struct buf *fields, const void *input,
                   size_t length)
{
    static const struct call_handlers handlers = {.data = on_data, .end = on_end};
    collect_begin(collection);
    call_start(client, &collection->call, operation, fields, &handlers, collection);
    call_give(&collection->call, input, length);
}

void collect_free(struct collection *collection)
{
    json_decref(collection->pieces);
    json_decref(collection->records);
    json_decref(collection->error);
    records_free(&collection->incoming);
    for (int i = 0; i < CHANNEL_COUNT; i++)
        buf_free(&collection->unfinished[i]);
}

static json_t *error_json(const struct error *err)
{
    return json_pack("{s:s, s:s, s:s}", "code", error_code_name(err->code), "message", err->message,
                     "hint", err->hint);
}

json_t *collect_json(const struct collection *collection, const struct outcome *outcome)
{
    json_t *json =
        json_pack("{s:O, s:O, s:s, s:i, s:I}", "output", collection->pieces, "results",
                  collection->records, "verdict", verdict_name(outcome->verdict), "exit_code",
                  outcome->exit_code, "duration_us", (json_int_t)outcome->duration_us);
    if (collection->error)
        json_object_set(json, "error", collection->error);
    if (outcome->count)
        json_object_set_new(json, "execution_count", json_integer((json_int_t)outcome->count));
    if (outcome->signal)
        json_object_set_new(json, "signal", json_integer(outcome->signal));
    if (outcome->state_lost)
        json_object_set_new(json, "state_lost", json_true());
    if (outcome->killed)
        json_object_set_new(json, "killed", json_string(outcome->killed));
    if (outcome->output_bytes)
        json_object_set_new(json, "output_bytes", json_integer((json_int_t)outcome->output_bytes));
    if (collection->invalid)
        json_object_set_new(json, "invalid_utf8", json_true());
    if (outcome->error.code != ERROR_NONE)
        json_object_set_new(json, "failure", error_json(&outcome->error));
    return json;
}
