/* Times as they stand in answers. */
#pragma once

#include <jansson.h>
#include <stdint.h>

/* "2026-01-31T12:00:00.000000+00:00" */
json_t *describe_time(uint64_t realtime_us);
