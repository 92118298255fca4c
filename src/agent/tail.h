/*
 * The last bytes of a command's output, each with the channel it came on. Offsets count
 * everything the command has printed, so whoever reads knows what it has missed.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/protocol.h"

#define TAIL_SIZE (64u * 1024)

struct tail {
    uint8_t *bytes;
    uint8_t *channels; /* of each byte */
    size_t capacity;   /* grows with what is printed, up to TAIL_SIZE */
    uint64_t begin;    /* offset at which remembering began */
    uint64_t end;      /* offset of the next byte */
};

struct tail *tail_make(uint64_t begin);
void tail_free(struct tail *tail);
void tail_append(struct tail *tail, enum channel channel, const uint8_t *bytes, size_t length);
/*
 * Where to read on: the offset itself while it is remembered, otherwise the first one that is. With
 * at_line the latter is moved to the beginning of a line, if there is one.
 */
uint64_t tail_resume(const struct tail *tail, uint64_t offset, bool at_line);
/* Bytes of one channel that lie in a row from the offset on, `most` at most; 0 at the end. */
size_t tail_piece(const struct tail *tail, uint64_t offset, size_t most, const uint8_t **bytes,
                  enum channel *channel);
