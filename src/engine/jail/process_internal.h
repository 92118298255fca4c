/* Shared by process.c, outside the jail, and process_inside.c, in its first process. */
#pragma once

#include "engine/jail/process.h"
#include "engine/jail/root.h"

#define JAIL_VOLUMES_MAX 64
#define JAIL_GROUPS 3

/* What the new process knows. It shares nothing with the caller but the conversation. */
struct jail_child {
    const struct jail_process *jail;
    struct jail_root root;
    struct jail_volume volumes[JAIL_VOLUMES_MAX];
    bool guards_modes;
    int program;             /* the agent */
    int groups[JAIL_GROUPS]; /* by cgroup_view; -1 where there is none */
    int filter;
    int parent; /* our end of the conversation with the caller */
    int caller; /* the other end, which is not ours */
    int doors[CGROUP_FOLDERS];
};

/* What it does until it executes the agent. An error is told to the caller. */
_Noreturn void jail_child_main(struct jail_child *child);
