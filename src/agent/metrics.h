/* OP_METRICS: what the sandbox uses, seen from inside. */
#pragma once

#include <stdint.h>

#include "agent/connection.h"

/* Processor time counts from now on. */
void metrics_begin(void);
void metrics_open(struct stream *stream, const uint8_t *fields, uint32_t length);
