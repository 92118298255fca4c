/*
 * The command that a sandbox was made for. The keeper starts it, so that nobody else has to stay
 * for it, writes down what it prints, and knows how it ended. The sandbox goes on afterwards.
 */
#pragma once

#include <jansson.h>

#include "sandbox/keeper_internal.h"

/* `begun` is called once: when the command runs, or with the reason why it does not. */
void start_command_run(struct keeper *keeper,
                       void (*begun)(struct keeper *keeper, const struct error *failure));
/* Adds its state to the sandbox's. */
void start_command_describe(const struct keeper *keeper, json_t *status);
