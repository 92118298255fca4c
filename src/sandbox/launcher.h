/*
 * Starts sandboxes beside the server. Preparing takes seconds or minutes and blocks, and a keeper
 * is forked, which a process with threads must not do. So the launcher is a program of its own; for
 * each start it forks a child that prepares, forks the keeper and passes the connection to it back.
 * A launcher that died is replaced at the next start.
 */
#pragma once

#include <uv.h>

#include "base/error.h"
#include "sandbox/config.h"

struct launch {
    uint64_t id;
    /* fd is the owner's connection as of launch_keeper, or -1 and err says why. */
    void (*ended)(struct launch *launch, int fd, const struct error *err);
    void *context;
    struct launch *next;
};

struct launcher {
    uv_loop_t *loop;
    int fd; /* -1: there is none */
    uv_poll_t *poll;
    uint64_t next_id;
    struct launch *launches; /* under way */
};

int launcher_open(struct launcher *launcher, uv_loop_t *loop, struct error *err);
/* `config` has its image's reference only. The launch belongs to the caller until it has ended. */
int launcher_start(struct launcher *launcher, struct launch *launch,
                   const struct sandbox_config *config, struct error *err);

/* What the launcher's program does; the server is at the other end of LAUNCHER_FD. */
#define LAUNCHER_FD 3
_Noreturn void launcher_main(void);
