/*
 * A scope holds all processes that one operation started, wherever they forked and whatever
 * session they made: a cgroup of its own. Where there is no cgroup2 at all, it is the process
 * group of its first process.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/error.h"

struct scope;

/* Makes our group below the one given as an open folder; -1: below the one we are in, if there is a
 * cgroup2 file system. */
void scope_init(int group);
/* How many processes and threads all scopes together may have; 0: as many as the kernel allows.
 * Needs the controller pids, which not every host offers. */
void scope_limit_processes(uint64_t count);
/* How many there are; negative without the controller. */
int64_t scope_count_processes(void);
/* Calls `take` with every process in any scope. */
void scope_each_process(void (*take)(pid_t pid));
/* Kills everything in all scopes and removes them. */
void scope_shutdown(void);

struct scope *scope_make(struct error *err);
/* The folder to start processes in (CLONE_INTO_CGROUP); -1 without cgroups. */
int scope_folder(const struct scope *scope);
/* Brings a process in that was started elsewhere and leads its session. */
void scope_move(struct scope *scope, pid_t pid);
/* Tells scopes apart; 0 without cgroups. */
unsigned long scope_number(const struct scope *scope);
/* That of the scope a process is in; 0 when it is in none or gone. */
unsigned long scope_number_of(pid_t pid);
/* The process that leads the scope's session. */
void scope_set_leader(struct scope *scope, pid_t pid);
void scope_kill(struct scope *scope);
/* The processes in it, a number on each line. */
void scope_list(struct scope *scope, struct buf *list);
/* A signal for all but the leader and those listed; or the end of them. */
void scope_signal_others(struct scope *scope, struct buf *spared, int number);
void scope_kill_others(struct scope *scope, struct buf *spared);
/* The operation is over: removed as soon as its last process has gone. */
void scope_release(struct scope *scope);
