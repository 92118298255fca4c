#include "sandbox/records.h"

#include "proto/wire.h"

#define RECORD_MAX (64u << 20)
#define LENGTH_SIZE 4

void records_feed(struct records *records, const uint8_t *bytes, size_t length)
{
    if (!records->broken)
        buf_append(&records->in, bytes, length);
}

static void give_up(struct records *records)
{
    records->broken = true;
    buf_free(&records->in);
}

/* A record that is no JSON is skipped: its length still tells where the next one begins. */
json_t *records_next(struct records *records)
{
    json_t *record = NULL;
    while (!record && buf_length(&records->in) >= LENGTH_SIZE) {
        uint32_t size = wire_get32(buf_data(&records->in));
        if (size > RECORD_MAX) {
            give_up(records);
            return NULL;
        }
        if (buf_length(&records->in) - LENGTH_SIZE < size)
            return NULL;
        record = json_loadb((const char *)buf_data(&records->in) + LENGTH_SIZE, size,
                            JSON_ALLOW_NUL, NULL);
        buf_consume(&records->in, LENGTH_SIZE + size);
    }
    return record;
}

void records_free(struct records *records)
{
    buf_free(&records->in);
}
