/* From a port to the process that listens on it, through /proc. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "server/context.h"

#define TABLE_MAX (8u << 20)
#define LISTENING 0x0a

/* The inode of the socket in /proc/net/tcp or tcp6; 0 when there is none. */
static unsigned long socket_inode(const char *table, uint16_t port)
{
    struct error ignored;
    cleanup_buf struct buf text = {0};
    if (file_read(table, TABLE_MAX, &text, &ignored) < 0)
        return 0;
    char *rest = NULL, *all = (char *)(uintptr_t)buf_text(&text);
    for (char *line = strtok_r(all, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        unsigned local, state;
        unsigned long inode;
        if (sscanf(line, "%*d: %*[0-9A-F]:%x %*[0-9A-F]:%*x %x %*s %*s %*s %*s %*s %lu", &local,
                   &state, &inode) == 3 &&
            local == port && state == LISTENING)
            return inode;
    }
    return 0;
}

static bool has_socket(const char *process, const char *socket)
{
    cleanup_free char *folder = xasprintf("/proc/%s/fd", process);
    DIR *entries = opendir(folder);
    const struct dirent *entry;
    bool found = false;
    while (entries && !found && (entry = readdir(entries))) {
        char target[64];
        ssize_t length = readlinkat(dirfd(entries), entry->d_name, target, sizeof target - 1);
        target[length > 0 ? length : 0] = '\0';
        found = strcmp(target, socket) == 0;
    }
    if (entries)
        closedir(entries);
    return found;
}

static void describe(const char *process, char *text, size_t size)
{
    struct error ignored;
    cleanup_buf struct buf name = {0};
    cleanup_free char *path = xasprintf("/proc/%s/comm", process);
    if (file_read(path, 256, &name, &ignored) < 0)
        buf_append_text(&name, "?");
    snprintf(text, size, "%.*s, process %s", (int)strcspn(buf_text(&name), "\n"), buf_text(&name),
             process);
}

void port_holder(uint16_t port, char *text, size_t size)
{
    text[0] = '\0';
    unsigned long inode = socket_inode("/proc/net/tcp", port);
    if (inode == 0)
        inode = socket_inode("/proc/net/tcp6", port);
    cleanup_free char *socket = xasprintf("socket:[%lu]", inode);
    DIR *processes = inode ? opendir("/proc") : NULL;
    const struct dirent *entry;
    while (processes && !text[0] && (entry = readdir(processes))) {
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' && has_socket(entry->d_name, socket))
            describe(entry->d_name, text, size);
    }
    if (processes)
        closedir(processes);
}
