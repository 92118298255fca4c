/*
 * Which names the layer that is being applied has put there itself: a whiteout hides what lower
 * layers have, wherever it stands among the layer's own entries.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct marks {
    uint64_t *keys; /* open addressing; 0 is free */
    size_t count;
    size_t capacity;
};

/* A name in the folder with that inode number. */
void marks_add(struct marks *marks, ino_t folder, const char *name);
bool marks_have(const struct marks *marks, ino_t folder, const char *name);
void marks_clear(struct marks *marks);
