/* The pipes between the agent and an interpreter; those for commands and messages: see driver.h. */
#pragma once

#include "agent/spawn.h"
#include "base/error.h"

enum wire { WIRE_STDOUT, WIRE_STDERR, WIRE_COMMANDS, WIRE_MESSAGES, WIRE_COUNT };

struct wires {
    int ours[WIRE_COUNT];
    int theirs[WIRE_COUNT];
};

/* Our ends do not block, theirs do. */
int wires_open(struct wires *wires, struct error *err);
void wires_close_ours(const struct wires *wires);
void wires_close_theirs(const struct wires *wires);
