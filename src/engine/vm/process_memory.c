#include "engine/vm/process_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

int process_memory_open(pid_t process, const char *name, int flags, struct error *err)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)process, name);
    int fd = open(path, flags | O_CLOEXEC);
    return fd >= 0 ? fd : error_errno(err, errno, "cannot open %s", path);
}
