/* The agent as built into this program. */
#pragma once

#include <stddef.h>
#include <stdint.h>

const uint8_t *agent_program(size_t *size);
