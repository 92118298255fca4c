/* What Landlock adds to a wall where the kernel has it. no_new_privs must be set before. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/*
 * From now on nothing that this process or its children do changes mounts or makes devices,
 * whatever capabilities they have and whatever their filter lets pass.
 */
int landlock_shut_in(struct error *err);

/* A file, or a folder with everything below it, that stays within reach. */
struct landlock_place {
    int fd;                                                         /* O_PATH will do */
    enum { LANDLOCK_READ, LANDLOCK_EXECUTE, LANDLOCK_WRITE } right; /* the last two also read */
};

/*
 * From now on this process and its children open, make and remove files in these places alone.
 * What is open already stays so. Newer kernels also refuse connections, and signals to processes
 * outside. Names can still be looked up, and modes, owners and times be changed: Landlock has no
 * rules about that.
 */
int landlock_leave_only(const struct landlock_place *places, size_t count, struct error *err);

/* Whether landlock_leave_only can work here. */
bool landlock_available(void);
