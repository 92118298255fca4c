/* What a jail sees of the world: a root made of an image, and little else. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

struct jail_volume {
    int tree; /* a mount that is ready to be attached */
    const char *path;
};

struct jail_root {
    const char *place; /* an existing folder, used as a mount point out of everybody's sight */
    int image;         /* a mount of the image */
    int disk;          /* a mount of what is written over it; -1: in memory */
    const struct jail_volume *volumes;
    size_t volume_count;
    unsigned memory_mb;
    unsigned disk_mb;
    unsigned files;  /* 0: one for each 16 KB of disk */
    int archive;     /* what the disk holds at the start, see saved.h; -1: nothing */
    int keeper;      /* a socket that gets the disk as a descriptor, for copies of it; -1: none */
    bool has_groups; /* more than one */
    bool bare;       /* without /proc, for a process that is not in a new process namespace */
};

/* Before ids change: opens what of the host is needed and can be named only now. */
struct jail_sights {
    int place;
    int devices[6];
};
int root_look(const struct jail_root *root, struct jail_sights *sights, struct error *err);
/* As the root of the new user namespace, in new mount and process namespaces: builds the root and
 * moves into it. Nothing of the host can be named afterwards. */
int root_enter(const struct jail_root *root, const struct jail_sights *sights, struct error *err);
