/* The records that a call sends on CHANNEL_RESULTS, put together from the pieces they come in. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "base/buf.h"

struct records {
    struct buf in;
    bool broken; /* what came is no record; the rest is ignored */
};

/* Takes a piece. */
void records_feed(struct records *records, const uint8_t *bytes, size_t length);
/* The next whole record, for json_decref; NULL when more bytes are needed. */
json_t *records_next(struct records *records);
void records_free(struct records *records);
