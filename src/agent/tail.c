#include "agent/tail.h"

#include <string.h>

#include "base/mem.h"

#define FIRST_CAPACITY 1024u

struct tail *tail_make(uint64_t begin)
{
    struct tail *tail = xcalloc(1, sizeof *tail);
    tail->begin = tail->end = begin;
    return tail;
}

void tail_free(struct tail *tail)
{
    if (!tail)
        return;
    free(tail->bytes);
    free(tail->channels);
    free(tail);
}

static size_t place_of(const struct tail *tail, uint64_t offset)
{
    return (size_t)((offset - tail->begin) % tail->capacity);
}

/* Only what has reached its full size goes round, so growing moves nothing. */
static void grow(struct tail *tail, size_t length)
{
    size_t capacity = tail->capacity ? tail->capacity : FIRST_CAPACITY;
    while (capacity < TAIL_SIZE && capacity < tail->end - tail->begin + length)
        capacity *= 2;
    if (capacity == tail->capacity)
        return;
    tail->bytes = xrealloc(tail->bytes, capacity);
    tail->channels = xrealloc(tail->channels, capacity);
    tail->capacity = capacity;
}

void tail_append(struct tail *tail, enum channel channel, const uint8_t *bytes, size_t length)
{
    grow(tail, length);
    while (length > 0) {
        size_t place = place_of(tail, tail->end);
        size_t size = tail->capacity - place < length ? tail->capacity - place : length;
        memcpy(tail->bytes + place, bytes, size);
        memset(tail->channels + place, (int)channel, size);
        tail->end += size;
        bytes += size;
        length -= size;
    }
}

static uint64_t first_offset(const struct tail *tail)
{
    uint64_t length = tail->end - tail->begin;
    return length > tail->capacity ? tail->end - tail->capacity : tail->begin;
}

uint64_t tail_resume(const struct tail *tail, uint64_t offset, bool at_line)
{
    uint64_t first = first_offset(tail);
    if (offset >= first)
        return offset;
    for (uint64_t at = first; at_line && at < tail->end; at++) {
        if (tail->bytes[place_of(tail, at)] == '\n')
            return at + 1;
    }
    return first;
}

size_t tail_piece(const struct tail *tail, uint64_t offset, size_t most, const uint8_t **bytes,
                  enum channel *channel)
{
    if (offset >= tail->end)
        return 0;
    size_t place = place_of(tail, offset);
    uint64_t left = tail->end - offset;
    if (left < most)
        most = (size_t)left;
    if (tail->capacity - place < most)
        most = tail->capacity - place;
    size_t length = 0;
    while (length < most && tail->channels[place + length] == tail->channels[place])
        length++;
    *bytes = tail->bytes + place;
    *channel = (enum channel)tail->channels[place];
    return length;
}
