/* The agent that is part of this program. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

const uint8_t *agent_program(size_t *size);
/* In memory that nobody can change any more, as a descriptor to execute: what runs it cannot reach
 * a file of the host by way of its own program. */
int agent_program_seal(struct error *err);
