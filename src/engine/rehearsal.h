/* First calls that leave no trace: what users' calls go through is in memory then, and translated
 * where it has to be. */
#pragma once

#include "base/error.h"

/* Whom adoptions are for, in turn: names of every length that makes a difference inside, and one
 * that is never longer than what comes after it, so that nothing has to be cut off then. */
#define REHEARSAL_NAME_LAST "a"
const char *rehearsal_name(unsigned round);
/* Of this language; NULL: there is nothing to do. Blocks until the agent has answered. */
int rehearse(int agent, const char *language, struct error *err);
/* The same for commands; an image may lack them. */
int rehearse_commands(int agent, const char *language, struct error *err);
