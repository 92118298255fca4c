/*
 * The wall around QEMU where namespaces are refused, as in most containers: Landlock in the place
 * of an empty root, no capabilities, a shorter list of system calls. Other processes stay visible,
 * and QEMU keeps the user's id.
 */
#pragma once

#include "engine/vm/confine.h"

#define THIN_LIBRARIES 2

struct thin {
    char **argv;                   /* QEMU's, with folders of this place in it */
    int libraries[THIN_LIBRARIES]; /* of inside/; -1: done without */
};

/* Before there is a process. thin_free is for later, also after a failure. */
int thin_prepare(const struct confinement *confinement, struct thin *thin, struct error *err);
void thin_free(struct thin *thin);
/* In the new process, which has no new privileges by then. */
int thin_enter(const struct confinement *confinement, struct error *err);
