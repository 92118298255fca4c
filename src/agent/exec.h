/* OP_EXEC: runs a command. */
#pragma once

#include <stdint.h>

#include "agent/connection.h"

void exec_open(struct stream *stream, const uint8_t *fields, uint32_t length);
