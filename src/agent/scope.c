#include "agent/scope.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
    char *path;
    unsigned long number;
    int folder;
    pid_t leader;
    struct loop_watch events; /* cgroup.events: says when it becomes empty */
    int processes;            /* cgroup.procs, opened when it is first asked for; else -1 */
    struct scope *next;
};

static char *root; /* NULL: no cgroup2 */
static struct scope *scopes;

static bool write_text(const char *folder, const char *name, const char *text)
{
    cleanup_free char *path = xasprintf("%s/%s", folder, name);
    cleanup_fd int fd = open(path, O_WRONLY | O_CLOEXEC);
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

/* The group we are in, as a path below the mount; "" for the topmost. */
static char *find_own_group(void)
{
    cleanup_buf struct buf text = {0};
    struct error ignored;
    if (file_read("/proc/self/cgroup", TEXT_MAX, &text, &ignored) < 0)
        return NULL;
    const char *line = strstr(buf_text(&text), "0::/");
    if (!line)
        return NULL;
    size_t length = strcspn(line + 3, "\n");
    return length > 1 ? xstrndup(line + 3, length) : xstrdup("");
}

/*
 * Scopes get no controllers: they hold processes together, limits are set further up, and a group
 * with controllers takes several times as long to make.
 */
void scope_init(void)
{
    cleanup_free char *mount = find_mount();
    cleanup_free char *own = find_own_group();
    if (!mount || !own)
        return;
    cleanup_free char *path = xasprintf("%s%s/msb-XXXXXX", mount, own);
    if (!mkdtemp(path)) {
        log_warn("cannot make a process group below %s%s: errno %d", mount, own, errno);
        return;
    }
    root = steal_pointer(&path);
}

void scope_limit_processes(uint64_t count)
{
    static uint64_t current;
    if (!root || count == current)
        return;
    cleanup_free char *text = count ? xasprintf("%" PRIu64, count) : xstrdup("max");
    write_text(root, "pids.max", text);
    current = count;
}

int64_t scope_count_processes(void)
{
    cleanup_buf struct buf text = {0};
    struct error ignored;
    cleanup_free char *path = xasprintf("%s/pids.current", root ? root : "");
    return file_read(path, 64, &text, &ignored) < 0 ? -1 : strtoll(buf_text(&text), NULL, 10);
}

static void each_process_of(const struct scope *scope, void (*take)(pid_t pid))
{
    cleanup_buf struct buf text = {0};
    struct error ignored;
    cleanup_free char *path = xasprintf("%s/cgroup.procs", scope->path);
    if (file_read(path, TEXT_MAX, &text, &ignored) < 0)
        return;
    buf_text(&text);
    char *rest = (char *)buf_data(&text);
    for (const char *line; (line = strsep(&rest, "\n"));) {
        if (line[0])
            take((pid_t)strtol(line, NULL, 10));
    }
}

void scope_each_process(void (*take)(pid_t pid))
{
    for (const struct scope *scope = scopes; scope; scope = scope->next) {
        if (scope->path)
            each_process_of(scope, take);
        else if (scope->leader > 0)
            take(scope->leader);
    }
}

/* Groups may have been made below; they are folders and the rest are files of the kernel's. */
static void remove_group(int parent, const char *name)
{
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;
    const struct dirent *entry;
    while (folder && (entry = readdir(folder))) {
        if (entry->d_type == DT_DIR && entry->d_name[0] != '.')
            remove_group(fd, entry->d_name);
    }
    if (folder)
        closedir(folder);
    unlinkat(parent, name, AT_REMOVEDIR);
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
    if (scope->path)
        remove_group(AT_FDCWD, scope->path);
    free(scope->path);
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
    if (!root)
        return scope;
    scope->number = ++counter;
    scope->path = xasprintf("%s/%lu", root, scope->number);
    if (mkdir(scope->path, 0755) == 0) {
        scope->folder = open(scope->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        scope->events.fd = openat(scope->folder, "cgroup.events", O_RDONLY | O_CLOEXEC);
    }
    if (scope->events.fd >= 0)
        return scope;
    error_errno(err, errno, "cannot make the process group %s", scope->path);
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
    const char *name = root ? strrchr(root, '/') : NULL;
    if (!name || file_read(path, TEXT_MAX, &text, &ignored) < 0)
        return 0;
    const char *at = strstr(buf_text(&text), name);
    return at && at[strlen(name)] == '/' ? strtoul(at + strlen(name) + 1, NULL, 10) : 0;
}

void scope_set_leader(struct scope *scope, pid_t pid)
{
    scope->leader = pid;
}

void scope_move(struct scope *scope, pid_t pid)
{
    cleanup_free char *number = xasprintf("%d", pid);
    if (scope->path && !write_text(scope->path, "cgroup.procs", number))
        log_warn("cannot move process %d to %s: errno %d", pid, scope->path, errno);
    scope_set_leader(scope, pid);
}

void scope_kill(struct scope *scope)
{
    if (scope->path && write_text(scope->path, "cgroup.kill", "1"))
        return;
    if (scope->leader > 0 && kill(-scope->leader, SIGKILL) < 0)
        kill(scope->leader, SIGKILL);
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

/* More than once, for the children of those that forked meanwhile. */
void scope_kill_others(struct scope *scope, struct buf *spared)
{
    cleanup_buf struct buf list = {0};
    for (int i = 0; scope->path && i < KILL_PASSES; i++) {
        scope_list(scope, &list);
        const char *at = buf_text(&list);
        char *end;
        for (long pid; (pid = strtol(at, &end, 10)) > 0; at = end) {
            if (pid != scope->leader && !has_line(spared, pid))
                kill((pid_t)pid, SIGKILL);
        }
    }
}

void scope_release(struct scope *scope)
{
    if (!scope->path || !is_populated(scope)) {
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
        if (scopes->path)
            wait_until_empty(scopes);
        free_scope(scopes);
    }
    if (root)
        remove_group(AT_FDCWD, root);
}
