/* Published ports: whoever connects to one on the host speaks with a server inside. */
#pragma once

#include "sandbox/keeper_internal.h"

/* Takes all ports of the settings and writes down which ones they are. Before the loop. */
int publish_bind(struct keeper *keeper, struct error *err);
/* Takes connections from now on. */
int publish_start(struct keeper *keeper, struct error *err);
/* Lets go of what publish_start has not taken. */
void publish_release(struct keeper *keeper);
