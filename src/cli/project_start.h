/* Starting sandboxes of a project: what msb up, apply and run have in common. */
#pragma once

#include "project/fleet.h"

/* Held while it is found out what has to be started, and until that is ready: two at once would
 * start the same sandboxes. */
int project_lock(const struct project *project, struct error *err);
/*
 * Prepares and starts those of the fleet, tells about each and, if the fleet stays, shows their
 * output. Frees the fleet and lets go of the lock (or -1). Returns the exit code for our own
 * process.
 */
int project_start(const struct project *project, struct fleet *fleet, int lock);
/* Tells on stderr if what the sandbox writes cannot be kept. */
void project_tell_loss(const struct sandbox_config *config);
