/*
 * Disks that outlive their sandboxes. $MSB_HOME/disks/NAMESPACE/NAME holds
 *
 *   disk       the file system with everything written (engine/disk.h)
 *   kept.json  what it belongs to; a folder without it is a beginning that came to nothing
 *
 * It belongs to whoever has the state folder of that name.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "sandbox/config.h"

/*
 * The disk of a sandbox whose files are to be kept, made when there is none: its path, or NULL when
 * they are not to be kept. Refuses one that was made for another image, engine or size. With
 * config->fresh what was kept before is thrown away.
 */
int kept_open(const struct sandbox_config *config, char **disk, struct error *err);
/* Whether kept_open would refuse what is kept now. */
int kept_check(const struct sandbox_config *config, struct error *err);

struct kept {
    char *namespace;
    char *name;
    char *image; /* NULL where it is damaged, like engine */
    char *engine;
    uint64_t used_us; /* when something was last written, since 1970 */
    uint64_t bytes;   /* of the host's disk */
    unsigned disk_mb;
};

/* Sorted. A NULL namespace means all. */
void kept_list(const char *namespace, struct kept **list, size_t *count);
void kept_list_free(struct kept *list, size_t count);
/* Bytes of the host's disk that are kept of it; 0: there is nothing. */
uint64_t kept_bytes(const char *namespace, const char *name);
/* ERROR_NOT_FOUND when nothing is kept, ERROR_BUSY while it runs. */
int kept_remove(const char *namespace, const char *name, struct error *err);
