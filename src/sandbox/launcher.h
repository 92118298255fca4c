/*
 * Starts sandboxes beside the server. Preparing takes seconds or minutes and blocks, and a keeper
 * is forked, which a process with threads must not do. So the launcher is a program of its own; for
 * each start it takes a keeper that was made ahead (pool.h), or forks a child that prepares, forks
 * one and passes the connection to it back. A launcher that died is replaced at the next start.
 */
#pragma once

#include <uv.h>

#include "base/buf.h"
#include "base/error.h"
#include "sandbox/config.h"
#include "sandbox/pool.h"

struct launch {
    uint64_t id;
    bool from_pool; /* the keeper was made ahead */
    /* fd is the owner's connection as of launch_keeper, or -1 and err says why. */
    void (*ended)(struct launch *launch, int fd, const struct error *err);
    void *context;
    struct buf request;
    struct launch *next;
};

struct launcher {
    uv_loop_t *loop;
    int fd; /* -1: there is none */
    uv_poll_t *poll;
    uint64_t next_id;
    struct launch *launches; /* under way */
    struct pool_counts pool; /* as last told */
    struct buf *standing;    /* requests of launcher_keep, for a launcher that is new */
    size_t standing_count;
};

int launcher_open(struct launcher *launcher, uv_loop_t *loop, struct error *err);
/* `config` has its image's reference only. The launch belongs to the launcher until it has ended;
 * launch_free afterwards. `call` as of launch_keeper. */
int launcher_start(struct launcher *launcher, struct launch *launch,
                   const struct sandbox_config *config, const struct buf *call, struct error *err);
/* The same once more, with a new keeper whatever is in the pool. */
int launcher_start_anew(struct launcher *launcher, struct launch *launch, struct error *err);
/* Has some of these made ahead, always. */
int launcher_keep(struct launcher *launcher, const struct sandbox_config *config,
                  struct error *err);
void launch_free(struct launch *launch);

/* What the launcher's program does; the server is at the other end of LAUNCHER_FD. */
#define LAUNCHER_FD 3
_Noreturn void launcher_main(void);
