/*
 * The control groups that limit a jail, as folders the agent was given. Elsewhere there are none,
 * and nothing is known.
 */
#pragma once

#include <stdint.h>

void group_set(int memory, int processes);
/* What the sandbox has of it and may have at most; negative when nothing is known. */
int64_t group_memory_used(void);
int64_t group_memory_limit(void);
int64_t group_processes(void);
/* How many processes were killed for want of memory. */
int64_t group_memory_kills(void);
