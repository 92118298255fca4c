/* First calls that leave no trace: what users' calls go through is in memory then, and translated
 * where it has to be. */
#pragma once

#include "base/error.h"

/* Of this language; NULL: there is nothing to do. Blocks until the agent has answered. */
int rehearse(int agent, const char *language, struct error *err);
/* The same for commands; an image may lack them. */
int rehearse_commands(int agent, const char *language, struct error *err);
