/* OP_ADOPT: become a sandbox of its own. OP_QUIESCE: get ready to be copied. */
#pragma once

#include <stdint.h>

#include "agent/connection.h"

void adopt_open(struct stream *stream, const uint8_t *fields, uint32_t length);
/* Negative after one that failed: what came along with it must not run in a twin of others. */
int adopt_check(uint8_t operation, struct error *err);
void quiesce_open(struct stream *stream, const uint8_t *fields, uint32_t length);
