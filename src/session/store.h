/*
 * The sessions on disk, in one SQLite file: a row for each sandbox that the session layer has made,
 * from before it is started until it is known to be gone. It has to outlive this process, not the
 * host: sandboxes do not outlive that either. So nothing waits for the disk. A file that is damaged
 * is replaced by an empty one.
 */
#pragma once

#include <stdint.h>

#include "base/error.h"
#include "session/policy.h"

struct store;

struct store_row {
    const char *namespace, *sandbox; /* the key */
    const char *id, *group, *template, *image, *language, *flavor;
    const char *volumes; /* a JSON array */
    enum session_state state;
    unsigned cpus, memory_mb;
    uint64_t created_us; /* since 1970 */
    /* Milliseconds since the host was booted. */
    uint64_t created, accessed, idle, lifetime;
};

/* NULL: see the error. */
struct store *store_open(const char *path, struct error *err);
void store_close(struct store *store);

/* What goes wrong here is logged: a session does not fail because it cannot be written down. */
void store_put(struct store *store, const struct store_row *row);
void store_forget(struct store *store, const char *namespace, const char *sandbox);
/* Everything until store_end becomes one step. */
void store_begin(struct store *store);
void store_end(struct store *store);
/* `take` may not change the store. The row lasts for the call. */
void store_each(struct store *store, void (*take)(void *context, const struct store_row *row),
                void *context);
