/* What the server and its launcher say to each other: one message per packet. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "sandbox/launch.h"
#include "sandbox/pool.h"

#define LAUNCHER_SETTINGS_MAX 65536
#define LAUNCHER_REQUEST_MAX (LAUNCHER_SETTINGS_MAX + LAUNCH_CALL_MAX)

enum launcher_request_kind {
    LAUNCHER_START,
    LAUNCHER_START_ANEW, /* not from the pool */
    LAUNCHER_KEEP,       /* in the pool, always; not answered */
};

/* A request is this, the settings as JSON, and the call that goes along with the start. */
struct launcher_request {
    uint64_t id;
    uint64_t kind;
    uint64_t settings_length;
};

struct launcher_answer {
    uint64_t id;
    bool from_pool;
    struct error err; /* code 0: none */
};

/* The launcher's other message: what is in the pool has changed. */
struct launcher_notice {
    struct pool_counts pool;
};

_Static_assert(sizeof(struct launcher_answer) != sizeof(struct launcher_notice),
               "told apart by their length");
