/* OP_CONTEXT_MAKE, LIST, RESTART and REMOVE. */
#pragma once

#include <stdint.h>

#include "agent/connection.h"

void context_manage_open(struct stream *stream, const uint8_t *fields, uint32_t length);
