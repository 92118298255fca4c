#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "cli/attach_internal.h"

static void tell_step(const char *who, const char *name, uint64_t us)
{
    fprintf(stderr, "%-8s %-24s %10" PRIu64 "\n", who, name, us);
}

/* What of the start happened outside of its keeper's steps: it was woken, and heard of. */
static uint64_t tell_keepers_steps(const struct attachment *a)
{
    uint64_t sum = 0, whole = a->ready - a->began;
    for (void *at = json_object_iter(a->steps); at; at = json_object_iter_next(a->steps, at)) {
        uint64_t us = (uint64_t)json_integer_value(json_object_iter_value(at));
        tell_step("keeper", json_object_iter_key(at), us);
        sum += us;
    }
    return whole > sum ? whole - sum : 0;
}

void attach_tell_timing(const struct attachment *a)
{
    const struct timing *timing = a->request->timing;
    uint64_t answered = a->first_output ? a->first_output : a->done;
    uint64_t end = clock_monotonic_us(), whole = end - a->began;
    if (!timing || !a->ready || !a->done)
        return;
    fprintf(stderr, "%-8s %-24s %11s\n", "", "step", "µs"); /* two bytes wide */
    for (unsigned i = 0; i < timing->count; i++) {
        tell_step("msb", timing->steps[i].name, timing->steps[i].us);
        whole += timing->steps[i].us;
    }
    uint64_t between = tell_keepers_steps(a);
    tell_step("msb", "between the two", between);
    tell_step("sandbox", a->first_output ? "first output" : "no output", answered - a->ready);
    tell_step("sandbox", "end of the call", a->done - answered);
    tell_step("msb", "stop", end - a->done);
    tell_step("", "altogether", whole);
}
