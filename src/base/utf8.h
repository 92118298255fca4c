/* Bytes that should be UTF-8, and what to do where they are not. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

#define UTF8_REPLACEMENT "\xef\xbf\xbd"

/* The length of the well-formed sequence at the front, 0 if there is none. `left` is at least 1. */
size_t utf8_sequence(const uint8_t *at, size_t left);
/* How many bytes at the end may be the beginning of a sequence whose rest is yet to come. */
size_t utf8_unfinished(const uint8_t *bytes, size_t length);
/* Appends the bytes with U+FFFD in place of each that is no UTF-8; returns how many were not. */
size_t utf8_append_valid(struct buf *out, const uint8_t *bytes, size_t length);
