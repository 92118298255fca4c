/*
 * The first process of a jail: the agent, in namespaces of its own for users, mounts, processes,
 * network, IPC, names, control groups and time, in a root of its own, with a list of system calls
 * and a control group.
 */
#pragma once

#include <sys/types.h>

#include "base/error.h"
#include "engine/cgroup.h"
#include "engine/engine.h"

struct jail_process {
    const struct machine_spec *spec;
    const char *place;           /* see root.h */
    const struct cgroup *cgroup; /* where it is put before it runs anything */
    uid_t first_user;            /* of the 65536 host ids it has */
    int agent;                   /* its end of the stream */
    struct warm_copy *warm;      /* an interpreter that moves in; NULL: none */
    int stderr_fd;
};

#define JAIL_USERS 65536u

/* Returns when the agent is being executed. The process dies with the calling thread's process.
 * `pidfd` becomes readable at its end. */
int jail_process_start(const struct jail_process *jail, pid_t *process, int *pidfd,
                       struct error *err);
