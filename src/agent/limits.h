/*
 * What everything that runs may use: set by ADOPT for the whole sandbox, of the output by single
 * calls as well.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "proto/fields.h"

/* 0 everywhere: no limit of ours. */
struct limits {
    uint64_t output_bytes; /* of a call that says nothing itself */
    uint64_t processes;    /* at once, threads included */
    uint64_t open_files;   /* of each process */
};

/* A field of ADOPT; one that is no limit is skipped. */
int limits_take(struct limits *limits, const struct field *field, struct error *err);
/* Also for what runs already. */
void limits_apply(const struct limits *limits);

/* How many bytes of its output a new operation with these arguments may send; *limit is left alone
 * when there is no limit. */
int limits_output(uint8_t operation, const uint8_t *fields, uint32_t length, uint64_t *limit,
                  struct error *err);
