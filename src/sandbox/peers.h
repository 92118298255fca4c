/*
 * Other sandboxes of the same namespace that programs inside reach by name. Each has an address of
 * its own in 127.0.0.0/8 inside; connections to its ports there are led to the ports that it
 * publishes on the host.
 */
#pragma once

#include "sandbox/keeper_internal.h"

/* The names, for OP_ADOPT. */
void peers_add_hosts(const struct keeper *keeper, struct buf *fields);
int peers_start(struct keeper *keeper, struct error *err);
