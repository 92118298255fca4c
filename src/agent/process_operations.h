/* What can be done with commands that run already. */
#pragma once

#include <stdint.h>

#include "agent/connection.h"

void process_list_open(struct stream *stream, const uint8_t *fields, uint32_t length);
void process_attach_open(struct stream *stream, const uint8_t *fields, uint32_t length);
void process_signal_open(struct stream *stream, const uint8_t *fields, uint32_t length);
void process_input_open(struct stream *stream, const uint8_t *fields, uint32_t length);
