/* Writes a process down so that others can become it, see frozen.h. */
#pragma once

#include <sys/types.h>

#include "base/error.h"

/* What it was given: descriptors of ours for the same files. */
struct freeze_files {
    int image, disk, overlay, kept, memory, console;
};

/* The process, ours, must have nothing to do. It goes on afterwards. */
int freeze(pid_t process, const struct freeze_files *files, int to, struct error *err);
enum frozen_state {
    FROZEN_USABLE,   /* made since the host started, with the libraries that it has now */
    FROZEN_OUTDATED, /* worth another try */
    FROZEN_REFUSED,  /* it cannot be done on this host */
};
enum frozen_state frozen_look(int file);
/* Notes that it cannot be done. */
int frozen_refuse(int to, struct error *err);
