/* What a sandbox is and uses, in one JSON object: its keeper's answer, its agent's as "inside". */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "base/error.h"

/* NULL when the keeper does not answer. Without "inside" when that is not wanted or the agent does
 * not answer: the sandbox may be paused. */
json_t *usage_of_sandbox(const char *namespace, const char *name, bool want_inside, int timeout_ms,
                         struct error *err);
/* Its ports as --port has them, "-" for none; for free(). */
char *usage_ports(const json_t *status);
