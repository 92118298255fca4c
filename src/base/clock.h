#pragma once

#include <stdint.h>

/* Time since boot, for measuring; never goes back. */
uint64_t clock_monotonic_us(void);
uint64_t clock_monotonic_ms(void);
/* Time since 1970. */
uint64_t clock_realtime_us(void);
