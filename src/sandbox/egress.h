/*
 * The way out of a sandbox: a proxy on a port inside whose connections end in the keeper, which
 * decides where they may go.
 */
#pragma once

#include "sandbox/keeper_internal.h"

#define EGRESS_PORT 3128

/* The environment that leads programs inside to the proxy, when anything is allowed. */
void egress_add_environment(const struct keeper *keeper, struct buf *fields);
/* Waits for connections from inside from now on. */
int egress_start(struct keeper *keeper, struct error *err);
