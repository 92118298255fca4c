/* OP_FILE_…: reading, writing and arranging files. */
#pragma once

#include <stdint.h>

#include "agent/connection.h"

void file_open(struct stream *stream, const uint8_t *fields, uint32_t length);
