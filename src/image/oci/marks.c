#include "image/oci/marks.h"

#include "base/mem.h"

#define FIRST_CAPACITY 1024

/* Two names that get the same key confuse only the image that has them. */
static uint64_t key_of(ino_t folder, const char *name)
{
    uint64_t key = 0xcbf29ce484222325ULL ^ (uint64_t)folder * 0x9e3779b97f4a7c15ULL;
    for (; *name; name++)
        key = (key ^ (unsigned char)*name) * 0x100000001b3ULL;
    key ^= key >> 32;
    return key ? key : 1;
}

static size_t place_of(const struct marks *marks, uint64_t key)
{
    size_t place = key & (marks->capacity - 1);
    while (marks->keys[place] && marks->keys[place] != key)
        place = (place + 1) & (marks->capacity - 1);
    return place;
}

static void grow(struct marks *marks)
{
    struct marks larger = {.capacity = marks->capacity ? marks->capacity * 2 : FIRST_CAPACITY,
                           .count = marks->count};
    larger.keys = xcalloc(larger.capacity, sizeof *larger.keys);
    for (size_t i = 0; i < marks->capacity; i++) {
        if (marks->keys[i])
            larger.keys[place_of(&larger, marks->keys[i])] = marks->keys[i];
    }
    free(marks->keys);
    *marks = larger;
}

void marks_add(struct marks *marks, ino_t folder, const char *name)
{
    if (marks->count * 2 >= marks->capacity)
        grow(marks);
    uint64_t key = key_of(folder, name);
    size_t place = place_of(marks, key);
    marks->count += marks->keys[place] == 0;
    marks->keys[place] = key;
}

bool marks_have(const struct marks *marks, ino_t folder, const char *name)
{
    if (marks->capacity == 0)
        return false;
    uint64_t key = key_of(folder, name);
    return marks->keys[place_of(marks, key)] == key;
}

void marks_clear(struct marks *marks)
{
    free(marks->keys);
    *marks = (struct marks){0};
}
