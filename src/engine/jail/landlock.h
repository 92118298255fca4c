/* What Landlock adds to the wall where the kernel has it. */
#pragma once

#include "base/error.h"

/*
 * From now on nothing that this process or its children do changes mounts or makes devices,
 * whatever capabilities they have and whatever their filter lets pass. no_new_privs must be set.
 */
int landlock_shut_in(struct error *err);
