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
#include "engine/own_ids.h"

struct jail_process {
    const struct machine_spec *spec;
    const char *place;           /* see root.h */
    const struct cgroup *cgroup; /* where it is put before it runs anything */
    uid_t first_user;            /* of the 65536 host ids it has, under root */
    const struct own_ids *own;   /* those it has under an ordinary user; NULL under root */
    const char *unpacked;        /* the image as a folder, for ordinary users */
    bool limits_processes;       /* no group limits it as a whole, so each process is limited */
    int agent;                   /* its end of the stream */
    int archive;                 /* see saved.h; -1: its disk is empty */
    struct warm_copy *warm;      /* an interpreter that moves in; NULL: none */
    int stderr_fd;
};

#define JAIL_USERS NAMESPACE_IDS
#define JAIL_FIRST_USER 1000 /* the user of our images */

/* Who runs things there, by number or as our images name it: shared folders belong to him. */
uid_t jail_user(const struct machine_spec *spec);

/* Returns when the agent is being executed. The process dies with the calling thread's process.
 * `pidfd` becomes readable at its end; `disk` is the folder of what is written inside. */
int jail_process_start(const struct jail_process *jail, pid_t *process, int *pidfd, int *disk,
                       struct error *err);
