/* How long the steps of something took, one after the other. */
#pragma once

#include <stdint.h>

#define TIMING_STEPS 12

struct timing {
    uint64_t at_us; /* when the last step ended */
    unsigned count;
    struct {
        const char *name; /* lives as long as the program */
        uint64_t us;
    } steps[TIMING_STEPS];
};

void timing_begin(struct timing *timing);
/* Ends a step that began where the one before ended. */
void timing_step(struct timing *timing, const char *name);
