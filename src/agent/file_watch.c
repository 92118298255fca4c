/*
 * Telling changes in a folder as they happen. The kernel's queue is the only one: it is read in
 * batches, a batch is tidied up and sent, and while the other side does not take it nothing is
 * read. If the kernel has to throw events away meanwhile, everything is watched anew.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "agent/file_walk.h"
#include "agent/file_watch_internal.h"
#include "agent/file_work.h"
#include "base/mem.h"

/* Between batches: what is written to one file meanwhile becomes one record. */
#define PAUSE_NS 20000000L
#define EVENTS_SIZE (256u * 1024)

static int on_appeared(struct watch *watch, const char *name, bool folder, struct error *err)
{
    if (watch_take_listed(watch, name))
        return 0;
    if (watch_tell(watch, WATCH_CREATE, name, NULL, err) < 0)
        return -1;
    return folder ? watch_enter_new(watch, name, err) : 0;
}

/* What was moved away and did not arrive anywhere has left the folder. */
static int finish_move(struct watch *watch, struct error *err)
{
    cleanup_free char *name = steal_pointer(&watch->move.name);
    if (!name || file_is_temporary(name))
        return 0;
    if (watch->move.folder)
        watch_leave(watch, name);
    return watch_tell(watch, WATCH_REMOVE, name, NULL, err);
}

static void on_moved_from(struct watch *watch, const struct inotify_event *event, const char *name)
{
    watch_take_listed(watch, name);
    watch->move.name = xstrdup(name);
    watch->move.cookie = event->cookie;
    watch->move.folder = event->mask & IN_ISDIR;
}

/* A file that was written under a temporary name. */
static int on_written(struct watch *watch, const char *from, const char *name, struct error *err)
{
    if (!file_temporary_replaces(from) && on_appeared(watch, name, false, err) < 0)
        return -1;
    return watch_tell(watch, WATCH_WRITE, name, NULL, err);
}

static int on_moved_to(struct watch *watch, const struct inotify_event *event, const char *name,
                       struct error *err)
{
    bool folder = event->mask & IN_ISDIR;
    if (!watch->move.name || watch->move.cookie != event->cookie)
        return on_appeared(watch, name, folder, err);
    cleanup_free char *from = steal_pointer(&watch->move.name);
    if (file_is_temporary(from))
        return on_written(watch, from, name, err);
    watch_take_listed(watch, name);
    if (watch_tell(watch, WATCH_RENAME, from, name, err) < 0)
        return -1;
    return folder && !watch_rename(watch, from, name) ? watch_enter_new(watch, name, err) : 0;
}

/* Whether the event shows that what was moved away did not stay in the folder. */
static bool is_after_move(const struct watch *watch, const struct inotify_event *event,
                          const char *name)
{
    if (!watch->move.name)
        return false;
    if (event->mask & IN_MOVED_TO)
        return event->cookie != watch->move.cookie;
    return event->mask & IN_MOVED_FROM || watch_lies_in(name, watch->move.name);
}

static int on_changed(struct watch *watch, const struct inotify_event *event, const char *name,
                      struct error *err)
{
    if (is_after_move(watch, event, name)) {
        if (finish_move(watch, err) < 0)
            return -1;
        if (!watch_find_folder(watch, event->wd))
            return 0;
    }
    if (event->mask & IN_MOVED_FROM) {
        on_moved_from(watch, event, name);
        return 0;
    }
    if (file_is_temporary(name))
        return 0;
    if (event->mask & IN_MOVED_TO)
        return on_moved_to(watch, event, name, err);
    if (event->mask & IN_CREATE)
        return on_appeared(watch, name, event->mask & IN_ISDIR, err);
    if (event->mask & IN_DELETE) {
        watch_take_listed(watch, name);
        return watch_tell(watch, WATCH_REMOVE, name, NULL, err);
    }
    return watch_tell(watch, event->mask & IN_MODIFY ? WATCH_WRITE : WATCH_CHMOD, name, NULL, err);
}

/* Returns 1: there is nothing left to watch. */
static int on_root_gone(struct watch *watch, struct error *err)
{
    if (finish_move(watch, err) < 0)
        return -1;
    return watch_tell(watch, WATCH_REMOVE, watch->only ? watch->only : "", NULL, err) < 0 ? -1 : 1;
}

static int on_overflow(struct watch *watch, struct error *err)
{
    int result = watch_enter_root(watch, err);
    if (result < 0)
        return err->code == ERROR_NOT_FOUND ? on_root_gone(watch, err) : result;
    return watch_tell(watch, WATCH_OVERFLOW, NULL, NULL, err);
}

static bool is_root(const struct watch_folder *folder)
{
    return folder->name[0] == '\0';
}

/* 1 when there is nothing left to watch. */
static int on_event(struct watch *watch, const struct inotify_event *event, struct error *err)
{
    if (event->mask & IN_Q_OVERFLOW)
        return on_overflow(watch, err);
    struct watch_folder *folder = watch_find_folder(watch, event->wd);
    if (!folder)
        return 0;
    if (event->mask & (IN_IGNORED | WATCH_ENDS) && is_root(folder))
        return on_root_gone(watch, err);
    if (event->mask & IN_IGNORED)
        watch_forget_folder(watch, folder);
    bool other = watch->only && event->len && strcmp(event->name, watch->only) != 0;
    if (event->len == 0 || (other && !file_is_temporary(event->name)))
        return 0;
    cleanup_free char *name = file_path_join(folder->name, event->name);
    return on_changed(watch, event, name, err);
}

static void move_on(struct watch *watch, size_t size)
{
    watch->unread -= size;
    if (!watch->listed)
        return;
    watch->listed_until -= size < watch->listed_until ? size : watch->listed_until;
    if (watch->listed_until == 0)
        watch_forget_listed(watch);
}

static int take_events(struct watch *watch, struct error *err)
{
    static uint8_t bytes[EVENTS_SIZE] __attribute__((aligned(__alignof__(struct inotify_event))));
    ssize_t got = read(watch->fd, bytes, sizeof bytes);
    if (got < 0)
        return errno == EAGAIN || errno == EINTR
                   ? finish_move(watch, err)
                   : error_errno(err, errno, "cannot watch %.400s", watch->root);
    watch->unread = (size_t)got;
    const uint8_t *at = bytes;
    int result = 0;
    while (watch->unread > 0 && result == 0) {
        const struct inotify_event *event = (const struct inotify_event *)at;
        size_t size = sizeof *event + event->len;
        at += size;
        move_on(watch, size);
        result = on_event(watch, event, err);
    }
    return result;
}

static int follow(struct watch *watch, struct error *err)
{
    int result = watch_tell(watch, WATCH_READY, NULL, NULL, err);
    while (result == 0 && (result = watch_send(watch, err)) == 0) {
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
        struct pollfd wait = {.fd = watch->fd, .events = POLLIN};
        poll(&wait, 1, watch->move.name ? 0 : -1);
        result = take_events(watch, err);
    }
    return result == 1 ? watch_send(watch, err) : result;
}

/* A file is watched by its folder, so that it may be replaced. */
static int find_root(struct watch *watch, const char *path, struct error *err)
{
    struct stat status;
    watch->root = realpath(path, NULL);
    if (!watch->root || stat(watch->root, &status) < 0)
        return error_errno(err, errno, "cannot watch %.400s", path);
    watch->device = status.st_dev;
    if (S_ISDIR(status.st_mode))
        return 0;
    char *slash = strrchr(watch->root, '/');
    watch->only = xstrdup(slash + 1);
    slash[slash == watch->root] = '\0';
    watch->recursive = false;
    return 0;
}

int file_work_watch(const struct file_request *request, struct error *err)
{
    struct watch *watch = xcalloc(1, sizeof *watch);
    watch->fd = -1;
    watch->recursive = request->recursive;
    watch->folders = xcalloc(WATCH_FOLDERS_MAX, sizeof *watch->folders);
    /* The end of a folder is told when nobody is in it any more. */
    if (find_root(watch, request->path, err) < 0 || chdir("/") < 0 ||
        watch_enter_root(watch, err) < 0)
        return -1;
    return follow(watch, err);
}
