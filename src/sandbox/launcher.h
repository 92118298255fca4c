/*
 * Starts processes for the server. Preparing takes seconds or minutes and blocks, and a keeper is
 * forked, which a process with threads must not do. So the launcher is a program of its own: for
 * each start it forks a child that prepares, forks a keeper and passes the connection to it back;
 * those of the pool (pool.h) prepare by themselves. A launcher that died is replaced at the next
 * start.
 */
#pragma once

#include <uv.h>

#include "base/buf.h"
#include "base/error.h"

struct launch {
    uint64_t id;
    /* fd is the owner's connection as of launch_keeper, or of launch_ahead, or -1 and err says
     * why. */
    void (*ended)(struct launch *launch, int fd, const struct error *err);
    void *context;
    char *settings;
    struct buf call;
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
/*
 * A launch has the settings as of launch_settings, of which the image's reference is enough, and
 * may have a call as of launch_keeper. It belongs to the launcher until it has ended; launch_free
 * afterwards.
 */
int launcher_start(struct launcher *launcher, struct launch *launch, struct error *err);
/* The same for launch_ahead; the settings are what sandbox_config_machine_text says. */
int launcher_start_ahead(struct launcher *launcher, struct launch *launch, struct error *err);
/* One with these settings came from the pool: the next ones of its kind are to be as fast. */
void launcher_renew_warmth(struct launcher *launcher, const struct launch *launch);
void launch_free(struct launch *launch);

/* What the launcher's program does; the server is at the other end of LAUNCHER_FD. */
#define LAUNCHER_FD 3
_Noreturn void launcher_main(void);
