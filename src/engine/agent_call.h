/* One operation of the agent, blocking: for the moments before anything else talks to it. */
#pragma once

#include "base/buf.h"
#include "base/error.h"

/* Waits for the agent's greeting. `kernel` gets the release of the kernel it runs on. */
int agent_greeting(int fd, int timeout_ms, char *kernel, size_t kernel_size, struct error *err);

/* Runs an operation that answers with nothing but its end. `fields` holds its arguments. */
int agent_call(int fd, uint8_t operation, const struct buf *fields, int timeout_ms,
               struct error *err);
/* The same in two halves, for something to be done meanwhile. There may be input; what it prints,
 * which must be little, is dropped. */
int agent_call_begin(int fd, uint8_t operation, const struct buf *fields, const char *input,
                     struct error *err);
/* `rest` may be NULL, or gets what has come behind the end already. */
int agent_call_end(int fd, int timeout_ms, struct buf *rest, struct error *err);
/* Between the halves: makes the agent look, and changes nothing. */
int agent_call_nudge(int fd, struct error *err);
