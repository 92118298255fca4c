#include "agent/group.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"

static int memory_group = -1;
static int process_group = -1;

void group_set(int memory, int processes)
{
    memory_group = memory;
    process_group = processes;
}

/* The number behind the word in a file of the group; "" is its beginning. */
static int64_t number_of(int group, const char *file, const char *word)
{
    char text[1024];
    cleanup_fd int fd = group < 0 ? -1 : openat(group, file, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (got <= 0)
        return -1;
    text[got] = '\0';
    const char *at = strstr(text, word);
    return at ? strtoll(at + strlen(word), NULL, 10) : -1;
}

/* The file's name in version 2, or that in version 1. */
static int64_t memory_number(const char *file, const char *old_file, const char *word)
{
    int64_t number = number_of(memory_group, file, word);
    return number >= 0 ? number : number_of(memory_group, old_file, word);
}

int64_t group_memory_used(void)
{
    return memory_number("memory.current", "memory.usage_in_bytes", "");
}

int64_t group_memory_limit(void)
{
    return memory_number("memory.max", "memory.limit_in_bytes", "");
}

int64_t group_memory_kills(void)
{
    return memory_number("memory.events", "memory.oom_control", "oom_kill ");
}

int64_t group_processes(void)
{
    return number_of(process_group, "pids.current", "");
}
