/* Settings in the environment. What is wrong is told with the variable, its value and a remedy. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/* NULL when it is unset or empty. */
const char *variable_value(const char *variable);
int variable_wrong(const char *variable, const char *wanted, struct error *err);
/* A whole number of `unit` from low to high, else the fallback. */
int variable_number(const char *variable, const char *unit, uint64_t fallback, uint64_t low,
                    uint64_t high, uint64_t *number, struct error *err);
/* true, 1, yes, on, enabled and their opposites; left as it is when unset. */
int variable_flag(const char *variable, bool *flag, struct error *err);
