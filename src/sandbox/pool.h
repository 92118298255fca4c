/*
 * Sandboxes made ahead, for a server: for every kind of machine that was asked for lately a number
 * of keepers whose machines run already, warmed and paused, waiting for their settings.
 *
 * A start takes one; another is made in its place, one at a time and when no start has come for a
 * moment. How many are kept follows demand, between MSB_POOL_SIZE (2; 0: no pool) and MSB_POOL_MAX
 * (16). They are given up when memory runs short, and those of a kind that nobody asks for any more
 * after ten minutes, unless the server is told to have them always (MSB_POOL_IMAGES). A keeper made
 * ahead ends with its connection, and so with the server.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "sandbox/config.h"
#include "sandbox/launcher.h"

struct pool_counts {
    uint64_t stock;   /* waiting now */
    uint64_t hits;    /* starts that took one */
    uint64_t misses;  /* starts that could have, had there been one */
    uint64_t made;    /* since the server started */
    uint64_t dropped; /* of these: given up, or died while they waited */
};

struct pools;

/* NULL when there is to be none. The launcher forks for it. */
struct pools *pools_open(uv_loop_t *loop, struct launcher *launcher);
/*
 * The connection to a keeper that was made ahead and has these settings now, and the call that came
 * with them, as after launch_keeper; the caller's. -1: there is none, and a plain start is to be
 * made. `settings` are those of the config as of launch_settings.
 */
int pools_take(struct pools *pools, const struct sandbox_config *config, const char *settings,
               const struct buf *call);
/* From now on there are always some of these, whether anybody asks for them or not. */
int pools_keep(struct pools *pools, const struct sandbox_config *config, struct error *err);
const struct pool_counts *pools_counts(const struct pools *pools);
