/* All commands, for whoever finds one or tells about them. */
#pragma once

#include "cli/command.h"

extern const struct command *const commands[]; /* ends with NULL */
/* What msb calls itself with; nobody is told about them. */
extern const struct command *const own_commands[];

/* What msb is, and the variables that it heeds, a line each. */
extern const char overview_text[], environment_text[];
