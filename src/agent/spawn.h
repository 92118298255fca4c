/*
 * Starts a program of the sandbox, or work of our own: as a user, in a scope, with exactly the
 * descriptors given.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "agent/account.h"
#include "agent/scope.h"
#include "base/error.h"
#include "proto/outcome.h"

#define SPAWN_FDS_MAX 6

struct spawn {
    char *const *argv;
    char **env;
    const char *cwd;
    const struct account *account;
    struct scope *scope;
    int fds[SPAWN_FDS_MAX]; /* become 0, 1, 2, … */
    int fd_count;
    bool terminal; /* descriptor 0 becomes the controlling terminal */
    /* Instead of the program, which then is only a name: returns the exit code. */
    int (*work)(const void *owner);
    const void *owner;
};

/*
 * Returns the process id. Whether the program really started is told by *report, a descriptor
 * for spawn_outcome that the caller closes.
 */
pid_t spawn_start(const struct spawn *spawn, int *report, struct error *err);

/*
 * Reads the report when it is readable: 0 the program runs, 1 not known yet, negative: it could
 * not be started. exit_code is what a shell would say: 127 not found, 126 not runnable.
 */
int spawn_outcome(int report, const char *program, const char *cwd, int *exit_code,
                  struct error *err);

/* The outcome of a process that wait() reported. */
struct outcome spawn_ended(int status);

/* stdin, stdout and stderr as pipes: our ends do not block, theirs do. */
struct spawn_pipes {
    int ours[3];
    int theirs[3];
};

int spawn_pipes_open(struct spawn_pipes *pipes, struct error *err);

/* Raises the agent's own number of descriptors, and has the kernel spare it when memory runs out;
 * children get back what the agent was born with. */
void spawn_init(void);
/* How many descriptors each process may have from now on, those that run included; 0: as many as
 * the agent was born with. */
void spawn_limit_files(uint64_t count);
/* The same for one that was not started here. */
void spawn_limit_files_of(pid_t pid);
