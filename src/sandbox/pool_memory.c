#include "sandbox/pool_memory.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "engine/cgroup.h"

/* Some program waited for 300 ms within 2 s. */
#define TRIGGER "some 300000 2000000"

static uint64_t number_behind(const char *text, const char *word)
{
    const char *at = strstr(text, word);
    return at ? strtoull(at + strlen(word), NULL, 10) : 0;
}

bool pool_memory_is_short(void)
{
    struct error ignored;
    uint64_t total, left;
    cleanup_buf struct buf text = {0};
    if (cgroup_room(&total, &left) && left < total / 4)
        return true;
    if (file_read("/proc/meminfo", 65536, &text, &ignored) < 0)
        return false;
    return number_behind(buf_text(&text), "MemAvailable:") <
           number_behind(buf_text(&text), "MemTotal:") / 4;
}

int pool_memory_watch(void)
{
    cleanup_fd int fd = open("/proc/pressure/memory", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || write(fd, TRIGGER, sizeof TRIGGER) < 0)
        return -1;
    return steal_fd(&fd);
}
