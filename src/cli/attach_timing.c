#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "cli/attach_internal.h"

static void tell_step(const char *who, const char *name, uint64_t us)
{
    fprintf(stderr, "%-8s %-24s %10" PRIu64 "\n", who, name, us);
}

/* Tells nothing when there is nobody to tell it of. */
static uint64_t sum_up(json_t *steps, const char *who)
{
    uint64_t sum = 0;
    for (void *at = json_object_iter(steps); at; at = json_object_iter_next(steps, at)) {
        uint64_t us = (uint64_t)json_integer_value(json_object_iter_value(at));
        if (who)
            tell_step(who, json_object_iter_key(at), us);
        sum += us;
    }
    return sum;
}

/* The keeper begins while the last of these steps still ends; that time is the keeper's. */
static uint64_t tell_own_steps(const struct timing *timing, uint64_t overlap)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < timing->count; i++) {
        uint64_t us = timing->steps[i].us;
        sum += us;
        if (i == timing->count - 1)
            us -= us < overlap ? us : overlap;
        tell_step("msb", timing->steps[i].name, us);
    }
    return sum;
}

void attach_tell_timing(const struct attachment *a)
{
    const struct timing *timing = a->request->timing;
    if (!timing || !a->ready || !a->done)
        return;
    uint64_t answered = a->first_output ? a->first_output : a->done;
    uint64_t start = a->ready - a->began, end = clock_monotonic_us();
    uint64_t keeper = sum_up(a->steps, NULL);
    fprintf(stderr, "%-8s %-24s %11s\n", "", "step", "µs"); /* two bytes wide */
    uint64_t before = tell_own_steps(timing, keeper > start ? keeper - start : 0);
    sum_up(a->steps, "keeper");
    /* It was woken, and heard of. */
    tell_step("msb", "between the two", start > keeper ? start - keeper : 0);
    tell_step("sandbox", a->first_output ? "first output" : "no output", answered - a->ready);
    tell_step("sandbox", "end of the call", a->done - answered);
    tell_step("msb", "stop", end - a->done);
    tell_step("", "altogether", before + end - a->began);
}
