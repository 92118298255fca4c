/* Ending sandboxes. */
#pragma once

#include "base/error.h"

/* Returns when nothing is left of it. One that does not answer is killed. */
int stop_sandbox(const char *namespace, const char *name, struct error *err);
