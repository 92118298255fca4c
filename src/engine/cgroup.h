/*
 * A control group around one engine process: a ceiling on host memory, processes and processor
 * time. Version 1 and version 2 hierarchies both, also side by side: version 2 then holds the
 * processes together and version 1 limits them. Where the caller may make no
 * groups (an ordinary user without delegation) there is none, and cgroup_available says why.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

#define CGROUP_FOLDERS 4

struct cgroup {
    char *folders[CGROUP_FOLDERS]; /* one per hierarchy, NULL where there is none */
    const char *tree;              /* the one of version 2 among them; NULL where there is none */
    bool limits_at_birth;          /* whether what cgroup_clone makes needs no cgroup_add */
};

struct cgroup_limits {
    uint64_t memory_bytes;
    unsigned processes;
};

/* Makes the group of this process' machine and sets its limits, as far as the host allows. */
void cgroup_create(struct cgroup *group, const struct cgroup_limits *limits);
/*
 * Ways into the group, one for each hierarchy and -1 where there is none: whoever writes "0" there
 * has entered, whatever he may do otherwise. They are to be closed, also after a failure.
 */
int cgroup_open_doors(const struct cgroup *group, int doors[CGROUP_FOLDERS], struct error *err);
void cgroup_close_doors(const int doors[CGROUP_FOLDERS]);
/*
 * Like fork, with namespaces of its own for users, mounts, processes, network, IPC and host name,
 * and those of `more` (CLONE_NEW…). The child is in the group before it returns from here.
 */
pid_t cgroup_clone(const struct cgroup *group, const int doors[CGROUP_FOLDERS], uint64_t more,
                   int *pidfd);
/* The same without namespaces, for hosts that refuse them: a plain fork. */
pid_t cgroup_fork(const struct cgroup *group, const int doors[CGROUP_FOLDERS], int *pidfd);
/* One of its groups as a mount without a way up: -1 where there is none. */
enum cgroup_view { CGROUP_TREE, CGROUP_MEMORY, CGROUP_PROCESSES };
int cgroup_show(const struct cgroup *group, enum cgroup_view view);
/* What everything in the group took so far. */
uint64_t cgroup_cpu_us(const struct cgroup *group);
uint64_t cgroup_memory_bytes(const struct cgroup *group);
/* Lets a user make groups below the version 2 one and move processes between them. */
void cgroup_delegate(const struct cgroup *group, uid_t user);
/* Stops or continues everything in the group. Needs version 2. */
int cgroup_freeze(const struct cgroup *group, bool frozen, struct error *err);
/* How much processor time it may use, in percent of one processor. */
void cgroup_limit_cpu(const struct cgroup *group, unsigned percent);
/* When others want the processors too, it gets a tenth of what it would get otherwise. */
void cgroup_step_back(const struct cgroup *group, bool back);
/* Whether the limits on memory and processes are in force for what is in the group. */
bool cgroup_holds(const struct cgroup *group, const struct cgroup_limits *limits);
/* Moves a process in that was not born there. Version 1 takes its time over that: 10 ms and more.
 */
bool cgroup_add(const struct cgroup *group, pid_t process);
/* Kills everything in the group at once. Needs version 2 and a kernel that can; false otherwise. */
bool cgroup_kill(const struct cgroup *group);
/* Removes the group, whose processes are gone. */
void cgroup_remove(struct cgroup *group);

/* Removes groups whose makers are dead. */
void cgroup_sweep(void);

/* Of the memory of all groups together, where they have a limit: how much can still be had. */
bool cgroup_room(uint64_t *limit, uint64_t *left);

/* Whether limits can be set here; `why` says what is there or what is missing. */
bool cgroup_available(const char **why);
