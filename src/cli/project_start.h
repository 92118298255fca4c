/* Starting sandboxes of a project: what msb up, apply and run have in common. */
#pragma once

#include "project/fleet.h"

/*
 * Prepares and starts those of the fleet, tells about each and, if the fleet stays, shows their
 * output. Frees the fleet. Returns the exit code for our own process.
 */
int project_start(struct fleet *fleet);
