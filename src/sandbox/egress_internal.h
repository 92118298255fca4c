/* Shared by the files of the way out only. */
#pragma once

#include "sandbox/egress.h"
#include "sandbox/egress_policy.h"

struct egress {
    struct keeper *keeper;
    struct egress_policy policy;
    uv_timer_t retry;
    unsigned parked;
    unsigned live; /* visits and tunnels under way */
    unsigned told; /* lines in the log that LOG_PAUSE_MS has not made up for */
    unsigned untold;
    uint64_t told_ms;
};

/* egress.c */
/* Somebody took a place, or left one. */
void egress_refill(struct egress *egress);
/* The same after a pause. */
void egress_retry(struct egress *egress);
void egress_log_refusal(struct egress *egress, int status, const struct error *err);

/* egress_visit.c */
/* Opens one more place for a visit; false when there are too many operations already. */
bool egress_park(struct egress *egress);
