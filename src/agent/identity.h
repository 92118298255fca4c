/* Who this machine is: its host name, its line in /etc/hosts and its machine id. */
#pragma once

#include <stdint.h>

#include "base/error.h"

/* `name` may be NULL: then it keeps the one it has. `others` are more lines of /etc/hosts, or NULL.
 * `entropy` has at least 32 bytes. */
int identity_set(const char *name, char *const *others, const uint8_t *entropy, struct error *err);
/* In another root: puts the names under /etc there. */
int identity_link(struct error *err);
