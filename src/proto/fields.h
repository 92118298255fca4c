/*
 * Fields: the arguments and outcomes inside OPEN, CONTROL, EVENT, HELLO and END frames. Each is
 * a tag (u8), a length (u32) and that many bytes; a tag may repeat (argv, environment). Numbers
 * are u64. Readers skip tags they do not know, so either side can be the newer one.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

struct field {
    uint8_t tag;
    const uint8_t *bytes;
    uint32_t length;
};

void fields_add_bytes(struct buf *out, uint8_t tag, const void *bytes, size_t length);
void fields_add_text(struct buf *out, uint8_t tag, const char *text);
void fields_add_number(struct buf *out, uint8_t tag, uint64_t value);

/* Walks a payload; `*at` starts at 0. Returns 1 with a field, 0 at the end, negative if broken. */
int fields_next(const uint8_t *payload, uint32_t length, uint32_t *at, struct field *field,
                struct error *err);

/* Gives each field to `take` until one is refused: negative then, or when the payload is broken. */
int fields_each(const uint8_t *payload, uint32_t length,
                int (*take)(void *owner, const struct field *field, struct error *err), void *owner,
                struct error *err);

/* A field as a fresh string; refuses a NUL byte inside. */
int field_text(const struct field *field, char **text, struct error *err);
/* The same in place of an earlier text (or NULL), or at the end of a list. */
int field_replace_text(const struct field *field, char **place, struct error *err);
int field_append_text(const struct field *field, char ***list, struct error *err);
/* A number that is not 0. */
int field_flag(const struct field *field, bool *flag, struct error *err);
int field_number(const struct field *field, uint64_t *value, struct error *err);
