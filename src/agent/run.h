/* OP_RUN: runs code in a context. */
#pragma once

#include <stdint.h>

#include "agent/connection.h"

void run_open(struct stream *stream, const uint8_t *fields, uint32_t length);
