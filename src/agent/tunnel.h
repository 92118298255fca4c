/* OP_CONNECT and OP_ACCEPT: TCP connections of the inside whose bytes travel on a stream. */
#pragma once

#include <stdint.h>

#include "agent/connection.h"

void connect_open(struct stream *stream, const uint8_t *fields, uint32_t length);
void accept_open(struct stream *stream, const uint8_t *fields, uint32_t length);
