/*
 * Records of /dev/kmsg: "PRIORITY,…;message". What programs write there has another facility than
 * the kernel, so nobody can make up a kill. The group of a victim is looked up while it can be; one
 * that its parent has reaped before we get to read belongs to whoever asks first.
 */
#include "agent/oom.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/group.h"
#include "agent/loop.h"
#include "agent/machine.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/json_text.h"
#include "base/mem.h"

#define RECORD_MAX 8192
#define RECORDS_AT_ONCE 256
#define KILLS_MAX 32
#define NAME_SIZE 16

struct kill {
    pid_t pid;           /* 0: nobody asks for it any more */
    unsigned long scope; /* 0: not known */
    char name[NAME_SIZE];
};

static struct loop_watch watch = {.fd = -1};
static struct kill kills[KILLS_MAX]; /* the latest ones */
static uint64_t count;

static void note_kill(pid_t pid, unsigned long scope, const char *name, size_t length)
{
    struct kill *kill = &kills[count++ % KILLS_MAX];
    *kill = (struct kill){.pid = pid, .scope = scope};
    memcpy(kill->name, name, length < NAME_SIZE ? length : NAME_SIZE - 1);
    json_text_clean(kill->name);
}

/* The number behind the words if the message begins with them; `rest` follows the number. */
static long number_behind(const char *message, const char *words, const char **rest)
{
    size_t length = strlen(words);
    if (strncmp(message, words, length) != 0)
        return 0;
    char *end;
    long number = strtol(message + length, &end, 10);
    *rest = end;
    return number;
}

static void take_message(const char *message)
{
    const char *rest;
    long pid = number_behind(message, "Out of memory: Killed process ", &rest);
    if (pid <= 0)
        pid = number_behind(message, "Memory cgroup out of memory: Killed process ", &rest);
    const char *end = pid > 0 ? strstr(rest, ") total-vm:") : NULL;
    if (!end || strncmp(rest, " (", 2) != 0 || end - rest - 2 >= NAME_SIZE)
        return;
    note_kill((pid_t)pid, scope_number_of((pid_t)pid), rest + 2, (size_t)(end - rest - 2));
}

static bool jail_counts_more(void)
{
    int64_t counted = group_memory_kills();
    return counted > 0 && (uint64_t)counted > count;
}

/* A child of ours in a jail. */
static void on_killed(pid_t pid)
{
    cleanup_buf struct buf name = {0};
    struct error ignored;
    cleanup_free char *path = xasprintf("/proc/%d/comm", (int)pid);
    if (!jail_counts_more() || file_read(path, NAME_SIZE + 1, &name, &ignored) < 0)
        return;
    note_kill(pid, scope_number_of(pid), buf_text(&name), strcspn(buf_text(&name), "\n"));
}

/* Others of the jail's processes were reaped by their parents, and nobody knows their names. */
static void note_strangers(const struct scope *scope)
{
    static const char name[] = "a process";
    while (jail_counts_more() && scope_number(scope))
        note_kill(-1, scope_number(scope), name, sizeof name - 1);
}

static void take_record(char *record)
{
    char *end;
    unsigned long priority = strtoul(record, &end, 10);
    const char *message = strchr(end, ';');
    if (*end == ',' && priority < 8 && message)
        take_message(message + 1);
}

static void read_log(void)
{
    static char record[RECORD_MAX + 1];
    for (int i = 0; watch.fd >= 0 && i < RECORDS_AT_ONCE; i++) {
        ssize_t got = read(watch.fd, record, RECORD_MAX);
        if (got <= 0 && errno != EPIPE && errno != EINTR)
            return;
        record[got > 0 ? got : 0] = '\0';
        take_record(record);
    }
}

static void on_ready(void *owner, uint32_t events)
{
    (void)owner, (void)events;
    read_log();
}

void oom_open(void)
{
    if (machine_is_jail())
        loop_inspect_killed(on_killed);
    int fd = machine_is_ours() ? open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    lseek(fd, 0, SEEK_END);
    loop_watch_start(&watch, fd, EPOLLIN, on_ready, NULL);
}

char *oom_find(const struct scope *scope, pid_t leader, bool *itself)
{
    char *found = NULL;
    *itself = false;
    read_log();
    note_strangers(scope);
    for (size_t i = 0; i < KILLS_MAX; i++) {
        struct kill *kill = &kills[i];
        bool leads = kill->pid == leader;
        bool inside = !kill->scope || kill->scope == scope_number(scope);
        if (kill->pid == 0 || (!leads && !inside))
            continue;
        if (!found || leads)
            found = kill->name;
        *itself |= leads;
        kill->pid = 0;
    }
    return found;
}

uint64_t oom_count(void)
{
    return count;
}
