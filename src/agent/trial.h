/* Hard work for a kernel that nobody has used yet, before machines are made with it. */
#pragma once

#include <stdbool.h>

/*
 * As the first process of a machine that is there for nothing else: fills its disk and empties it
 * again, over and over, while memory is short and caches are thrown away. A bad kernel does not
 * get through it. Returns false, with the reason on stderr, when something went wrong short of
 * that.
 */
bool trial_run(void);
