/* The output that a sandbox has written down, from near its end on, and what is added to it. */
#pragma once

#include "base/error.h"

/* All of it, or its last `lines`; nothing is known when there is no log. */
#define FOLLOW_ALL (~0u)
int follow_print(const char *folder, unsigned lines, struct error *err);
/*
 * The same, and then what is added, until the other end of `connection` is closed (the sandbox
 * ends) or somebody interrupts.
 */
int follow_run(const char *folder, unsigned lines, int connection, struct error *err);
