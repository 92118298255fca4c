/*
 * Telling changes in a folder as they happen. The kernel's queue is the only one: it is read in
 * batches, a batch is tidied up and sent, and while the other side does not take it nothing is
 * read. If the kernel has to throw events away meanwhile, everything is watched anew.
 *
 * A folder that appears is watched first and listed then. What the list finds may also be in the
 * queue as an event; such events are known by their names until the queue has moved on.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <search.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "agent/file_record.h"
#include "agent/file_work.h"
#include "base/mem.h"

#define FOLDERS_MAX 8192
#define BATCH 1024
/* How far back equal changes are looked for. */
#define LOOK_BACK 64
/* Between batches: what is written to one file meanwhile becomes one record. */
#define PAUSE_NS 20000000L
#define EVENTS_SIZE (256u * 1024)

#define CHANGES (IN_CREATE | IN_MODIFY | IN_ATTRIB | IN_DELETE | IN_MOVE)
#define ENDS (IN_DELETE_SELF | IN_MOVE_SELF | IN_UNMOUNT)

enum kind { READY, CREATE, WRITE, REMOVE, RENAME, CHMOD, OVERFLOW };

struct change {
    enum kind kind;
    char *name;
    char *target; /* of RENAME, else NULL */
};

struct folder {
    int wd;
    char *name; /* below the root; that of the root is empty */
};

struct watch {
    char *root;
    const char *only; /* the one file that is watched, else NULL */
    bool recursive;
    dev_t device;
    int fd;
    struct folder *folders; /* by wd: new ones have the highest */
    size_t folder_count;
    struct change batch[BATCH];
    size_t batch_count;
    struct {
        uint32_t cookie;
        char *name; /* NULL: none is under way */
        bool folder;
    } move;
    void *listed; /* names that lists have found, a tree of <search.h> */
    size_t listed_count;
    size_t listed_until; /* bytes of events that may still repeat them */
    size_t unread;       /* bytes of events at hand */
};

static int compare_texts(const void *one, const void *other)
{
    return strcmp(one, other);
}

static void forget_listed(struct watch *watch)
{
    tdestroy(watch->listed, free);
    watch->listed = NULL;
    watch->listed_count = 0;
}

/* Too many are forgotten: then some may be told twice. */
static void add_listed(struct watch *watch, const char *name)
{
    if (watch->listed_count == FILE_LIST_MAX)
        forget_listed(watch);
    char *text = xstrdup(name);
    char **kept = tsearch(text, &watch->listed, compare_texts);
    if (kept && *kept == text)
        watch->listed_count++;
    else
        free(text);
}

/* Whether it was among the listed; it is not any longer. */
static bool take_listed(struct watch *watch, const char *name)
{
    char **found = tfind(name, &watch->listed, compare_texts);
    if (!found)
        return false;
    cleanup_free char *text = *found;
    tdelete(name, &watch->listed, compare_texts);
    watch->listed_count--;
    return true;
}

static int send_batch(struct watch *watch, struct error *err)
{
    static const char *const names[] = {"ready",  "create", "write",   "remove",
                                        "rename", "chmod",  "overflow"};
    int result = 0;
    for (size_t i = 0; i < watch->batch_count; i++) {
        struct change *change = &watch->batch[i];
        cleanup_buf struct buf record = {0};
        file_record_text(&record, "type", names[change->kind]);
        if (change->name)
            file_record_text(&record, "name", change->name);
        if (change->target)
            file_record_text(&record, "target", change->target);
        if (result == 0)
            result = file_record_add(&record, err);
        free(change->name);
        free(change->target);
    }
    watch->batch_count = 0;
    return result < 0 ? result : file_record_flush(err);
}

/* Whether the last thing said of this name was the same. */
static bool is_repeated(const struct watch *watch, enum kind kind, const char *name)
{
    size_t oldest = watch->batch_count > LOOK_BACK ? watch->batch_count - LOOK_BACK : 0;
    for (size_t i = watch->batch_count; i-- > oldest;) {
        const struct change *change = &watch->batch[i];
        if (change->kind == RENAME || !change->name)
            return false;
        if (strcmp(change->name, name) == 0)
            return change->kind == kind;
    }
    return false;
}

static int tell(struct watch *watch, enum kind kind, const char *name, const char *target,
                struct error *err)
{
    if (name && !target && is_repeated(watch, kind, name))
        return 0;
    if (watch->batch_count == BATCH && send_batch(watch, err) < 0)
        return -1;
    watch->batch[watch->batch_count++] = (struct change){.kind = kind,
                                                         .name = name ? xstrdup(name) : NULL,
                                                         .target = target ? xstrdup(target) : NULL};
    return 0;
}

static struct folder *find_folder(const struct watch *watch, int wd)
{
    size_t low = 0;
    size_t high = watch->folder_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (watch->folders[middle].wd == wd)
            return &watch->folders[middle];
        if (watch->folders[middle].wd < wd)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

static bool is_root(const struct folder *folder)
{
    return folder->name[0] == '\0';
}

static void forget_folder(struct watch *watch, struct folder *folder)
{
    free(folder->name);
    watch->folder_count--;
    memmove(folder, folder + 1,
            (size_t)(watch->folders + watch->folder_count - folder) * sizeof *folder);
}

/* Whether it is the folder or in it. */
static bool lies_in(const char *name, const char *folder)
{
    size_t length = strlen(folder);
    return strncmp(name, folder, length) == 0 && (name[length] == '/' || name[length] == '\0');
}

static void leave_folders(struct watch *watch, const char *name)
{
    for (size_t i = watch->folder_count; i-- > 0;) {
        struct folder *folder = &watch->folders[i];
        if (!lies_in(folder->name, name))
            continue;
        inotify_rm_watch(watch->fd, folder->wd);
        forget_folder(watch, folder);
    }
}

/* False when none of that name was watched. */
static bool rename_folders(struct watch *watch, const char *from, const char *to)
{
    bool found = false;
    for (size_t i = 0; i < watch->folder_count; i++) {
        char *old = watch->folders[i].name;
        if (!lies_in(old, from))
            continue;
        watch->folders[i].name = xasprintf("%s%s", to, old + strlen(from));
        free(old);
        found = true;
    }
    return found;
}

static int too_many(const struct watch *watch, struct error *err)
{
    error_set(err, ERROR_LIMIT, "more than %d folders to watch in %.400s", FOLDERS_MAX,
              watch->root);
    return error_hint(err, "watch a smaller folder, or not the folders in it");
}

/* 1 when it is watched from now on, 0 when it was already or cannot be, with errno. */
static int enter_folder(struct watch *watch, const char *name, struct error *err)
{
    cleanup_free char *path = file_path_join(watch->root, name);
    uint32_t mask = CHANGES | ENDS | IN_ONLYDIR | IN_DONT_FOLLOW | IN_EXCL_UNLINK;
    int wd = inotify_add_watch(watch->fd, path, mask);
    if (wd < 0)
        return errno == ENOSPC || errno == ENOMEM ? too_many(watch, err) : 0;
    if (find_folder(watch, wd))
        return 0;
    if (watch->folder_count == FOLDERS_MAX)
        return too_many(watch, err);
    watch->folders[watch->folder_count++] = (struct folder){.wd = wd, .name = xstrdup(name)};
    return 1;
}

static const char *name_below(const struct watch *watch, const char *path)
{
    path += strlen(watch->root);
    return *path == '/' ? path + 1 : path;
}

static int watch_entry(struct watch *watch, const struct file_entry *entry, const char *name,
                       struct error *err)
{
    if (!S_ISDIR(entry->status.st_mode) || entry->status.st_dev != watch->device)
        return FILE_STEP_OVER;
    int entered = enter_folder(watch, name, err);
    return entered < 0 ? -1 : entered ? FILE_STEP_ENTER : FILE_STEP_OVER;
}

static int visit_silently(void *owner, const struct file_entry *entry, struct error *err)
{
    struct watch *watch = owner;
    return watch_entry(watch, entry, name_below(watch, entry->path), err);
}

static int visit_new(void *owner, const struct file_entry *entry, struct error *err)
{
    struct watch *watch = owner;
    const char *name = name_below(watch, entry->path);
    if (file_is_temporary(entry->name))
        return FILE_STEP_OVER;
    add_listed(watch, name);
    if (tell(watch, CREATE, name, NULL, err) < 0)
        return -1;
    return watch_entry(watch, entry, name, err);
}

/* Watches what is in a watched folder, and tells it if the client cannot know it yet. */
static int enter_entries(struct watch *watch, const char *name, bool is_new, struct error *err)
{
    cleanup_free char *path = file_path_join(watch->root, name);
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return 0;
    struct file_walk walk = {.depth = FILE_DEPTH_MAX,
                             .left = is_new ? FILE_LIST_MAX : UINT64_MAX,
                             .visit = is_new ? visit_new : visit_silently,
                             .owner = watch};
    if (file_walk(&walk, fd, path, err) < 0)
        return -1;
    if (walk.cut)
        return error_set(err, ERROR_LIMIT, "more than %u entries came at once", FILE_LIST_MAX);
    int queued = 0;
    ioctl(watch->fd, FIONREAD, &queued);
    watch->listed_until = watch->unread + (size_t)queued;
    return 0;
}

static int enter_new_folder(struct watch *watch, const char *name, struct error *err)
{
    if (!watch->recursive)
        return 0;
    int entered = enter_folder(watch, name, err);
    return entered <= 0 ? entered : enter_entries(watch, name, true, err);
}

/* Begins, or begins again. */
static int enter_root(struct watch *watch, struct error *err)
{
    while (watch->folder_count > 0)
        forget_folder(watch, &watch->folders[watch->folder_count - 1]);
    forget_listed(watch);
    free(steal_pointer(&watch->move.name));
    watch->unread = 0;
    fd_close(watch->fd);
    watch->fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (watch->fd < 0) {
        error_errno(err, errno, "cannot watch %.400s", watch->root);
        return error_hint(err, "end some of the other watches of this user");
    }
    int entered = enter_folder(watch, "", err);
    if (entered == 0)
        return error_errno(err, errno, "cannot watch %.400s", watch->root);
    return entered < 0 || !watch->recursive ? entered : enter_entries(watch, "", false, err);
}

static int on_appeared(struct watch *watch, const char *name, bool folder, struct error *err)
{
    if (take_listed(watch, name))
        return 0;
    if (tell(watch, CREATE, name, NULL, err) < 0)
        return -1;
    return folder ? enter_new_folder(watch, name, err) : 0;
}

/* What was moved away and did not arrive anywhere has left the folder. */
static int finish_move(struct watch *watch, struct error *err)
{
    cleanup_free char *name = steal_pointer(&watch->move.name);
    if (!name || file_is_temporary(name))
        return 0;
    if (watch->move.folder)
        leave_folders(watch, name);
    return tell(watch, REMOVE, name, NULL, err);
}

static void on_moved_from(struct watch *watch, const struct inotify_event *event, const char *name)
{
    take_listed(watch, name);
    watch->move.name = xstrdup(name);
    watch->move.cookie = event->cookie;
    watch->move.folder = event->mask & IN_ISDIR;
}

/* A file that was written under a temporary name. */
static int on_written(struct watch *watch, const char *from, const char *name, struct error *err)
{
    if (!file_temporary_replaces(from) && on_appeared(watch, name, false, err) < 0)
        return -1;
    return tell(watch, WRITE, name, NULL, err);
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
    take_listed(watch, name);
    if (tell(watch, RENAME, from, name, err) < 0)
        return -1;
    return folder && !rename_folders(watch, from, name) ? enter_new_folder(watch, name, err) : 0;
}

/* Whether the event shows that what was moved away did not stay in the folder. */
static bool is_after_move(const struct watch *watch, const struct inotify_event *event,
                          const char *name)
{
    if (!watch->move.name)
        return false;
    if (event->mask & IN_MOVED_TO)
        return event->cookie != watch->move.cookie;
    return event->mask & IN_MOVED_FROM || lies_in(name, watch->move.name);
}

static int on_changed(struct watch *watch, const struct inotify_event *event, const char *name,
                      struct error *err)
{
    if (is_after_move(watch, event, name)) {
        if (finish_move(watch, err) < 0)
            return -1;
        if (!find_folder(watch, event->wd))
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
        take_listed(watch, name);
        return tell(watch, REMOVE, name, NULL, err);
    }
    return tell(watch, event->mask & IN_MODIFY ? WRITE : CHMOD, name, NULL, err);
}

/* Returns 1: there is nothing left to watch. */
static int on_root_gone(struct watch *watch, struct error *err)
{
    if (finish_move(watch, err) < 0)
        return -1;
    return tell(watch, REMOVE, watch->only ? watch->only : "", NULL, err) < 0 ? -1 : 1;
}

static int on_overflow(struct watch *watch, struct error *err)
{
    int result = enter_root(watch, err);
    if (result < 0)
        return err->code == ERROR_NOT_FOUND ? on_root_gone(watch, err) : result;
    return tell(watch, OVERFLOW, NULL, NULL, err);
}

/* 1 when there is nothing left to watch. */
static int on_event(struct watch *watch, const struct inotify_event *event, struct error *err)
{
    if (event->mask & IN_Q_OVERFLOW)
        return on_overflow(watch, err);
    struct folder *folder = find_folder(watch, event->wd);
    if (!folder)
        return 0;
    if (event->mask & (IN_IGNORED | ENDS) && is_root(folder))
        return on_root_gone(watch, err);
    if (event->mask & IN_IGNORED)
        forget_folder(watch, folder);
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
        forget_listed(watch);
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
    int result = tell(watch, READY, NULL, NULL, err);
    while (result == 0 && (result = send_batch(watch, err)) == 0) {
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
        struct pollfd wait = {.fd = watch->fd, .events = POLLIN};
        poll(&wait, 1, watch->move.name ? 0 : -1);
        result = take_events(watch, err);
    }
    return result == 1 ? send_batch(watch, err) : result;
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
    watch->folders = xcalloc(FOLDERS_MAX, sizeof *watch->folders);
    /* The end of a folder is told when nobody is in it any more. */
    if (find_root(watch, request->path, err) < 0 || chdir("/") < 0 || enter_root(watch, err) < 0)
        return -1;
    return follow(watch, err);
}
