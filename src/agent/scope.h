/*
 * A scope holds all processes that one operation started, wherever they forked and whatever
 * session they made: a cgroup of its own. Where there is no cgroup2 at all, it is the process
 * group of its first process.
 */
#pragma once

#include <sys/types.h>

#include "base/error.h"

struct scope;

/* Finds the cgroup2 file system and makes our group below the one we are in. */
void scope_init(void);
/* Kills everything in all scopes and removes them. */
void scope_shutdown(void);

struct scope *scope_make(struct error *err);
/* The folder to start processes in (CLONE_INTO_CGROUP); -1 without cgroups. */
int scope_folder(const struct scope *scope);
/* The process that leads the scope's session. */
void scope_set_leader(struct scope *scope, pid_t pid);
void scope_kill(struct scope *scope);
/* The operation is over: removed as soon as its last process has gone. */
void scope_release(struct scope *scope);
