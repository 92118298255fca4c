/* What every engine's machine begins with; for engines only. */
#pragma once

#include "base/buf.h"
#include "engine/cgroup.h"
#include "engine/engine.h"

struct machine_ops {
    int (*pause)(struct machine *machine, struct error *err);
    int (*poise)(struct machine *machine, struct error *err); /* NULL: there is nothing to do */
    /* May return before it goes on; then `settle` waits for that. Otherwise there is none. */
    int (*resume)(struct machine *machine, struct error *err);
    int (*settle)(struct machine *machine, struct error *err);
    int (*save)(struct machine *machine, const char *folder, struct error *err);
    /* A reason that the engine knows of replaces err. May be NULL. */
    void (*explain)(struct machine *machine, struct error *err);
    /* It never answered: what it was made from is made anew next time. False: that was done before,
     * and did not help. May be NULL. */
    bool (*distrust)(const struct machine *machine);
    /* NULL: what the process takes by itself. */
    struct machine_usage (*usage)(const struct machine *machine);
    /* Frees what the engine added, the structure included. The process is dead by then. */
    void (*release)(struct machine *machine);
};

struct machine {
    const struct machine_ops *ops;
    pid_t process;
    int exit;        /* pidfd */
    int agent;       /* stream */
    int words;       /* its stderr, non-blocking */
    int console;     /* what the kernel inside says, non-blocking; -1: there is none of its own */
    struct buf said; /* …the end of it */
    struct cgroup cgroup;
    unsigned cpu_percent;
    bool shares_root; /* see machine_shares_root */
    char accelerator[16];
    char kernel[96];
    char last_words[600];
};

/* A machine with no process yet. */
void machine_init(struct machine *machine, const struct machine_ops *ops);
