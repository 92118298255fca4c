/*
 * What the agent keeps for itself in a jail, whose kernel is the host's: a few capabilities within
 * its user namespace. What it starts gets none, whoever it runs as.
 */
#pragma once

#include <stdbool.h>

/* Keeps only what the agent needs once the sandbox has its name. */
void privileges_settle(void);
/* In a child, before it becomes its user: false when something could not be given up. */
bool privileges_prepare_drop(void);
/* …and afterwards. */
bool privileges_drop(void);
