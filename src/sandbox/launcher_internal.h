/* What the server and its launcher say to each other: one message per packet. */
#pragma once

#include <stdint.h>

#include "base/error.h"
#include "sandbox/launch.h"

enum launcher_request_kind {
    LAUNCHER_START,
    LAUNCHER_AHEAD, /* a keeper for the pool, of what sandbox_config_machine_text says */
    LAUNCHER_WARM,  /* one like this was started from the pool; not answered */
};

/* A request is this, the settings as JSON, and the call that goes along with the start. */
struct launcher_request {
    uint64_t id;
    uint64_t kind;
    uint64_t settings_length;
};
#define LAUNCHER_REQUEST_MAX                                                                       \
    (sizeof(struct launcher_request) + LAUNCH_SETTINGS_MAX + LAUNCH_CALL_MAX)

struct launcher_answer {
    uint64_t id;
    struct error err; /* code 0: none */
};
