/*
 * Snapshots: sandboxes that were written down while they ran, to start from later, any number of
 * times. $MSB_HOME/snapshots/NAMESPACE/NAME holds what machine_save made, and sandbox.json, the
 * settings of the original.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* Of a running sandbox of the same namespace. ERROR_EXISTS when the name is taken. */
int snapshot_make(const char *namespace, const char *sandbox, const char *name, struct error *err);
int snapshot_remove(const char *namespace, const char *name, struct error *err);

struct snapshot {
    char *namespace;
    char *name;
    char *sandbox; /* of which it was made; NULL where it is damaged, like those below */
    char *image;
    char *engine;
    uint64_t made_us; /* since 1970 */
    uint64_t bytes;   /* of the host's disk that are its alone */
};

/* Sorted. A NULL namespace means all. */
void snapshot_list(const char *namespace, struct snapshot **snapshots, size_t *count);
void snapshot_list_free(struct snapshot *snapshots, size_t count);
