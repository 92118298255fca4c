/*
 * A call whose output is wanted as a whole: what it printed, in order of arrival, and its records
 * are collected until it ends. Whoever wants them as they come passes handlers to call_start, and
 * may still collect them on the side.
 */
#pragma once

#include <jansson.h>

#include "sandbox/client.h"
#include "sandbox/records.h"

struct collection {
    struct client_call call;
    json_t *pieces;  /* {"stream": "stdout" or "stderr", "text": …}, as they came */
    json_t *records; /* as they came: results, entries of folders, contexts, … */
    json_t *error;   /* of code that raised one; NULL: none */
    bool invalid;    /* something was no UTF-8 and is shown as U+FFFD */
    struct records incoming;
    struct buf unfinished[CHANNEL_COUNT]; /* the front of a character that was cut */
    void (*ended)(struct collection *collection, const struct outcome *outcome);
    void *context;
};

/* `input` must last until the end; NULL: none. The handler may free the collection. */
void collect_start(struct collection *collection, struct sandbox_client *client,
                   enum operation operation, const struct buf *fields, const void *input,
                   size_t length);

/* The parts of collect_start, for handlers of one's own: begin, take all data, finish at the end.
 */
void collect_begin(struct collection *collection);
void collect_take(struct collection *collection, enum channel channel, const uint8_t *bytes,
                  size_t length);
void collect_finish(struct collection *collection);

void collect_free(struct collection *collection);
/* The answer as one JSON object: pieces, results, error, verdict, exit_code, … for json_decref. */
json_t *collect_json(const struct collection *collection, const struct outcome *outcome);
