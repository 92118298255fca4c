#include "agent/scope.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/loop.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"

#define TEXT_MAX (1024u * 1024)
#define KILL_PASSES 3
#define LIST_PIECE 4096

struct scope {
    unsigned long number; /* also its group's name; 0 without cgroups */
    int folder;
    pid_t leader;
    struct loop_watch events; /* cgroup.events: says when it becomes empty */
    int processes;            /* cgroup.procs, opened when it is first asked for; else -1 */
    struct scope *next;
};

static char root_name[32];   /* our group's */
static int root = -1;        /* its folder; -1: no cgroup2 */
static int root_parent = -1; /* the folder it lies in */
static struct scope *scopes;

static bool write_text(int folder, const char *name, const char *text)
{
    cleanup_fd int fd = openat(folder, name, O_WRONLY | O_CLOEXEC);
    return fd >= 0 && write(fd, text, strlen(text)) > 0;
}

/* One line of mountinfo: the fifth word is the mount point, the type follows " - ". */
static char *mount_point_of(char *line, const char *type)
{
    const char *tail = strstr(line, " - ");
    size_t length = strlen(type);
    if (!tail || strncmp(tail + 3, type, length) != 0 || tail[3 + length] != ' ')
        return NULL;
    char *word = NULL;
    for (int i = 0; i < 5; i++)
        word = strsep(&line, " ");
    return word ? xstrdup(word) : NULL;
}

static char *find_mount(void)
{
    cleanup_buf struct buf text = {0};
    struct error ignored;
    if (file_read("/proc/self/mountinfo", TEXT_MAX, &text, &ignored) < 0)
        return NULL;
    buf_text(&text);
    char *rest = (char *)buf_data(&text);
    char *found = NULL;
    for (char *line; !found && (line = strsep(&rest, "\n"));)
        found = mount_point_of(line, "cgroup2");
    return found;
}

/* The folder of the group we are in; -1 without cgroup2. */
static int open_own_group(void)
{
    cleanup_buf struct buf text = {0};
    struct error ignored;
    cleanup_free char *mount = find_mount();
    if (!mount || file_read("/proc/self/cgroup", TEXT_MAX, &text, &ignored) < 0)
        return -1;
    const char *line = strstr(buf_text(&text), "0::/");
    if (!line)
        return -1;
    cleanup_free char *path = xasprintf("%s%.*s", mount, (int)strcspn(line + 3, "\n"), line + 3);
    return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/*
 * Scopes get no controllers: they hold processes together, limits are set further up, and a group
 * with controllers takes several times as long to make.
 */
void scope_init(int group)
{
    unsigned random = 0;
    root_parent = group >= 0 ? group : open_own_group();
    if (root_parent < 0)
        return;
    if (getrandom(&random, sizeof random, GRND_NONBLOCK) < 0)
        random = (unsigned)getpid();
    snprintf(root_name, sizeof root_name, "msb-%08x", random);
    struct stat above;
    if (mkdirat(root_parent, root_name, 0755) == 0)
        root = openat(root_parent, root_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    /* Whoever gave us the group above must be able to remove what is in it. */
    if (root >= 0 && fstat(root_parent, &above) == 0 && above.st_uid != geteuid())
        fchown(root, above.st_uid, above.st_gid);
    if (root < 0)
        log_warn("cannot make a group for processes: errno %d", errno);
}

void scope_limit_processes(uint64_t count)
{
    static uint64_t current;
    if (root < 0 || count == current)
        return;
    cleanup_free char *text = count ? xasprintf("%" PRIu64, count) : xstrdup("max");
    write_text(root, "pids.max", text);
    current = count;
}

int64_t scope_count_processes(void)
{
    char text[64];
    cleanup_fd int fd = root < 0 ? -1 : openat(root, "pids.current", O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (got <= 0)
        return -1;
    text[got] = '\0';
    return strtoll(text, NULL, 10);
}

/* Asked after every call to an interpreter, so the file stays open. */
void scope_list(struct scope *scope, struct buf *list)
{
    buf_consume(list, buf_length(list));
    if (scope->processes < 0)
        scope->processes = openat(scope->folder, "cgroup.procs", O_RDONLY | O_CLOEXEC);
    ssize_t got;
    do {
        got = pread(scope->processes, buf_reserve(list, LIST_PIECE), LIST_PIECE,
                    (off_t)buf_length(list));
        if (got > 0)
            buf_commit(list, (size_t)got);
    } while (got == LIST_PIECE && buf_length(list) < TEXT_MAX);
}

void scope_each_process(void (*take)(pid_t pid))
{
    cleanup_buf struct buf list = {0};
    for (struct scope *scope = scopes; scope; scope = scope->next) {
        if (scope->folder < 0) {
            if (scope->leader > 0)
                take(scope->leader);
            continue;
        }
        scope_list(scope, &list);
        const char *at = buf_text(&list);
        char *end;
        for (long pid; (pid = strtol(at, &end, 10)) > 0; at = end)
            take((pid_t)pid);
    }
}

static void free_scope(struct scope *scope)
{
    struct scope **at = &scopes;
    while (*at != scope)
        at = &(*at)->next;
    *at = scope->next;
    loop_watch_stop(&scope->events);
    fd_close(scope->events.fd);
    fd_close(scope->folder);
    fd_close(scope->processes);
    if (scope->number) {
        char name[32];
        snprintf(name, sizeof name, "%lu", scope->number);
        folder_remove_empty(root, name);
    }
    free(scope);
}

static bool is_populated(const struct scope *scope)
{
    char text[256];
    ssize_t got = pread(scope->events.fd, text, sizeof text - 1, 0);
    if (got <= 0)
        return false;
    text[got] = '\0';
    return strstr(text, "populated 1") != NULL;
}

static void on_events(void *owner, uint32_t events)
{
    (void)events;
    struct scope *scope = owner;
    if (!is_populated(scope))
        free_scope(scope);
}

struct scope *scope_make(struct error *err)
{
    static unsigned long counter;
    struct scope *scope = xcalloc(1, sizeof *scope);
    scope->folder = scope->events.fd = scope->processes = -1;
    scope->next = scopes;
    scopes = scope;
    if (root < 0)
        return scope;
    char name[32];
    scope->number = ++counter;
    snprintf(name, sizeof name, "%lu", scope->number);
    if (mkdirat(root, name, 0755) == 0) {
        scope->folder = openat(root, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        scope->events.fd = openat(scope->folder, "cgroup.events", O_RDONLY | O_CLOEXEC);
    }
    if (scope->events.fd >= 0)
        return scope;
    error_errno(err, errno, "cannot make a group for processes");
    free_scope(scope);
    return NULL;
}

int scope_folder(const struct scope *scope)
{
    return scope->folder;
}

unsigned long scope_number(const struct scope *scope)
{
    return scope->number;
}

/* Its group's path has the name of ours, then the scope's number, then perhaps groups of its own.
 */
unsigned long scope_number_of(pid_t pid)
{
    cleanup_buf struct buf text = {0};
    struct error ignored;
    cleanup_free char *path = xasprintf("/proc/%d/cgroup", (int)pid);
    if (root < 0 || file_read(path, TEXT_MAX, &text, &ignored) < 0)
        return 0;
    const char *at = strstr(buf_text(&text), root_name);
    const char *rest = at ? at + strlen(root_name) : "";
    return *rest == '/' ? strtoul(rest + 1, NULL, 10) : 0;
}

void scope_set_leader(struct scope *scope, pid_t pid)
{
    scope->leader = pid;
}

void scope_move(struct scope *scope, pid_t pid)
{
    cleanup_free char *number = xasprintf("%d", pid);
    if (scope->folder >= 0 && !write_text(scope->folder, "cgroup.procs", number))
        log_warn("cannot move process %d to its group: errno %d", pid, errno);
    scope_set_leader(scope, pid);
}

void scope_kill(struct scope *scope)
{
    if (scope->folder >= 0 && write_text(scope->folder, "cgroup.kill", "1"))
        return;
    if (scope->leader > 0 && kill(-scope->leader, SIGKILL) < 0)
        kill(scope->leader, SIGKILL);
}

static bool has_line(struct buf *list, long number)
{
    const char *at = buf_text(list);
    char *end;
    for (long found; (found = strtol(at, &end, 10)) > 0; at = end) {
        if (found == number)
            return true;
    }
    return false;
}

void scope_signal_others(struct scope *scope, struct buf *spared, int number)
{
    cleanup_buf struct buf list = {0};
    if (scope->folder < 0)
        return;
    scope_list(scope, &list);
    const char *at = buf_text(&list);
    char *end;
    for (long pid; (pid = strtol(at, &end, 10)) > 0; at = end) {
        if (pid != scope->leader && !has_line(spared, pid))
            kill((pid_t)pid, number);
    }
}

/* More than once, for the children of those that forked meanwhile. */
void scope_kill_others(struct scope *scope, struct buf *spared)
{
    for (int i = 0; i < KILL_PASSES; i++)
        scope_signal_others(scope, spared, SIGKILL);
}

void scope_release(struct scope *scope)
{
    if (scope->folder < 0 || !is_populated(scope)) {
        free_scope(scope);
        return;
    }
    loop_watch_start(&scope->events, scope->events.fd, EPOLLPRI, on_events, scope);
    /* It may have become empty before the watch began. */
    if (!is_populated(scope))
        free_scope(scope);
}

/* The kernel ends killed processes a moment later; their group can be removed only then. */
static void wait_until_empty(const struct scope *scope)
{
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLPRI};
    epoll_ctl(epoll, EPOLL_CTL_ADD, scope->events.fd, &event);
    for (int i = 0; i < 10 && is_populated(scope); i++)
        epoll_wait(epoll, &event, 1, 200);
    close(epoll);
}

void scope_shutdown(void)
{
    for (struct scope *scope = scopes; scope; scope = scope->next)
        scope_kill(scope);
    while (scopes) {
        if (scopes->folder >= 0)
            wait_until_empty(scopes);
        free_scope(scopes);
    }
    if (root >= 0)
        folder_remove_empty(root_parent, root_name);
}
