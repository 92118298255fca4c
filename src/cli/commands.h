/* All commands, for whoever finds one or tells about them. */
#pragma once

#include "cli/command.h"

extern const struct command *const commands[]; /* ends with NULL */
