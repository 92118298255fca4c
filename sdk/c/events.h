/* Server-sent events, put together from pieces. */
#pragma once

#include "internal.h"

struct msb_events {
    msb_output *output;
    void *context;
    char *rest; /* of an event that is not whole yet */
    size_t length;
    json_t *end; /* the data of the last event */
    bool ended_by_caller;
};

/* A msb_piece. */
int msb_events_take(void *context, const char *bytes, size_t length);
