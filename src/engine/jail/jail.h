/* The engine that isolates by the host's own kernel: native speed, a thinner wall. */
#pragma once

#include "engine/engine.h"

extern const struct engine jail_engine;

/* Whether jails can be made here: NULL, or what is missing. */
const char *jail_missing(void);
/* What of the wall and the limits an ordinary user cannot have: see engine.h; and what to do. */
char *jail_weaknesses(void);
const char *jail_remedy(void);
/*
 * A range of ids that no other jail of this host has, as a descriptor that holds it. Whoever has
 * the socket of that name in the kernel has the range; it is free again when the holder is gone,
 * however that went.
 */
int jail_take_range(uid_t *first_user, struct error *err);
