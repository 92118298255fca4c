/* What /proc tells of the memory of a process of ours. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

/* A file of /proc/PID. */
int process_memory_open(pid_t process, const char *name, int flags, struct error *err);

/* By an entry of pagemap: whether the page is the process's alone, or still belongs to a file. */
static inline bool process_memory_is_own(uint64_t entry)
{
    const uint64_t present = 1ull << 63, swapped = 1ull << 62, of_file = 1ull << 61;
    return (entry & swapped) || (entry & (present | of_file)) == present;
}
