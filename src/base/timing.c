#include "base/timing.h"

#include "base/clock.h"

void timing_begin(struct timing *timing)
{
    *timing = (struct timing){.at_us = clock_monotonic_us()};
}

void timing_step(struct timing *timing, const char *name)
{
    uint64_t now = clock_monotonic_us();
    if (timing->count == TIMING_STEPS)
        return;
    timing->steps[timing->count].name = name;
    timing->steps[timing->count++].us = now - timing->at_us;
    timing->at_us = now;
}
