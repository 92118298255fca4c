/* What the host has of control groups, for the files cgroup*.c. */
#pragma once

#include "engine/cgroup.h"

#define CGROUP_ROOT "/sys/fs/cgroup"

/* Whether there is version 2 alone. */
bool cgroup_is_unified(void);
bool cgroup_is_version_2(const char *hierarchy);
/* The ones we use, NULL behind the last: the first has the memory, the third the processors. */
const char *const *cgroup_hierarchies(void);
/* Where groups are made in a hierarchy: NULL where we may make none. */
char *cgroup_find_root(const char *hierarchy);
/* The number behind the word in a file of the group; "" is its beginning, 0: it is not there. */
uint64_t cgroup_number(const char *folder, const char *file, const char *word);
