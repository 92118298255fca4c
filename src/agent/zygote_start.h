/* The start of the zygote that jails get their first interpreters from: outside of all of them. */
#pragma once

/* Becomes the interpreter of this user, with `env` and defaults for what is missing in it. Returns
 * an exit code when that cannot be done. */
int zygote_start(const char *user, char *const *env, int link);
