/* Commands in a sandbox that go on without us: starting one and listing them. */
#pragma once

#include <stdbool.h>

#include "base/buf.h"

/* Both take the connection over and return the exit code for our own process. */

/* Starts a command (the fields of OP_EXEC) and prints its process id. */
int processes_start(int connection, const struct buf *fields);
/* Prints what runs and what has ended lately. */
int processes_list(int connection, bool json);
