/* OP_HOLD and OP_CLOCK: a machine that is copied, and one that has stood still. */
#pragma once

#include "agent/connection.h"

void hold_open(struct stream *stream, const uint8_t *fields, uint32_t length);
void clock_open(struct stream *stream, const uint8_t *fields, uint32_t length);
