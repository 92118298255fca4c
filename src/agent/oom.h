/*
 * Who was killed for want of memory. In a machine of our own the kernel's log tells it; elsewhere
 * the log speaks of others, too, and numbers processes differently. A jail's control group counts
 * its kills, which are matched with processes that end that way.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/scope.h"

void oom_open(void);
/*
 * The name of a process of the scope that was killed since this was last asked, or NULL. The name
 * lasts until the loop goes on. *itself: it was `leader`, not something that leader had started.
 */
char *oom_find(const struct scope *scope, pid_t leader, bool *itself);
/* How many were killed so far. */
uint64_t oom_count(void);
