/*
 * The pages of a machine's memory that are its alone. A machine maps its template's memory
 * privately, so what it has written to are those pages that do not come from the file any more.
 * They are written down as runs: offset, length, bytes.
 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "base/error.h"

/* `memory` is the file that the process has mapped; it must not run meanwhile. */
int pages_save(pid_t process, int memory, size_t size, int to, struct error *err);
/* Into a process that has mapped the same file and has not run yet. */
int pages_load(pid_t process, int memory, size_t size, int from, struct error *err);
