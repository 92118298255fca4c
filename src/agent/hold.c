#include "agent/hold.h"

#include "agent/machine.h"
#include "proto/fields.h"

void hold_open(struct stream *stream, const uint8_t *fields, uint32_t length)
{
    (void)fields, (void)length;
    connection_hold(stream);
}

static int take_time(void *owner, const struct field *field, struct error *err)
{
    return field->tag == TAG_REALTIME_US ? field_number(field, owner, err) : 0;
}

/* Outside machines the clock is the host's, and right. */
void clock_open(struct stream *stream, const uint8_t *fields, uint32_t length)
{
    struct error err;
    struct outcome done = {0};
    uint64_t realtime_us = 0;
    int result = fields_each(fields, length, take_time, &realtime_us, &err);
    if (result == 0 && realtime_us && machine_is_ours())
        result = machine_set_clock(realtime_us, &err);
    if (result < 0)
        stream_end_error(stream, &err);
    else
        stream_end(stream, &done);
}
