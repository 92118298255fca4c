/* Asking keepers: one operation that answers with nothing but its end, with a time limit. */
#pragma once

#include "proto/outcome.h"
#include "proto/protocol.h"

/* The answer to a sandbox's start, on the connection of launch_keeper. However long it takes. */
int query_started(int connection, struct outcome *outcome, struct error *err);

/*
 * 0 and an outcome (outcome_free) when the keeper answered. With await_end it also waits until the
 * keeper has closed the connection.
 */
int query_keeper(const char *namespace, const char *name, enum operation operation, bool await_end,
                 int timeout_ms, struct outcome *outcome, struct error *err);
