/*
 * A folder that appears is watched first and listed then. What the list finds may also be in the
 * queue as an event; such events are known by their names until the queue has moved on.
 */
#include <errno.h>
#include <fcntl.h>
#include <search.h>
#include <string.h>
#include <sys/ioctl.h>

#include "agent/file_walk.h"
#include "agent/file_watch_internal.h"
#include "agent/file_work.h"
#include "base/mem.h"

#define CHANGES (IN_CREATE | IN_MODIFY | IN_ATTRIB | IN_DELETE | IN_MOVE)

static int compare_texts(const void *one, const void *other)
{
    return strcmp(one, other);
}

void watch_forget_listed(struct watch *watch)
{
    tdestroy(watch->listed, free);
    watch->listed = NULL;
    watch->listed_count = 0;
}

/* Too many are forgotten: then some may be told twice. */
static void add_listed(struct watch *watch, const char *name)
{
    if (watch->listed_count == FILE_LIST_MAX)
        watch_forget_listed(watch);
    char *text = xstrdup(name);
    char **kept = tsearch(text, &watch->listed, compare_texts);
    if (kept && *kept == text)
        watch->listed_count++;
    else
        free(text);
}

bool watch_take_listed(struct watch *watch, const char *name)
{
    char **found = tfind(name, &watch->listed, compare_texts);
    if (!found)
        return false;
    cleanup_free char *text = *found;
    tdelete(name, &watch->listed, compare_texts);
    watch->listed_count--;
    return true;
}

struct watch_folder *watch_find_folder(const struct watch *watch, int wd)
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

void watch_forget_folder(struct watch *watch, struct watch_folder *folder)
{
    free(folder->name);
    watch->folder_count--;
    memmove(folder, folder + 1,
            (size_t)(watch->folders + watch->folder_count - folder) * sizeof *folder);
}

bool watch_lies_in(const char *name, const char *folder)
{
    size_t length = strlen(folder);
    return strncmp(name, folder, length) == 0 && (name[length] == '/' || name[length] == '\0');
}

void watch_leave(struct watch *watch, const char *name)
{
    for (size_t i = watch->folder_count; i-- > 0;) {
        struct watch_folder *folder = &watch->folders[i];
        if (!watch_lies_in(folder->name, name))
            continue;
        inotify_rm_watch(watch->fd, folder->wd);
        watch_forget_folder(watch, folder);
    }
}

bool watch_rename(struct watch *watch, const char *from, const char *to)
{
    bool found = false;
    for (size_t i = 0; i < watch->folder_count; i++) {
        char *old = watch->folders[i].name;
        if (!watch_lies_in(old, from))
            continue;
        watch->folders[i].name = xasprintf("%s%s", to, old + strlen(from));
        free(old);
        found = true;
    }
    return found;
}

static int too_many(const struct watch *watch, struct error *err)
{
    error_set(err, ERROR_LIMIT, "more than %d folders to watch in %.400s", WATCH_FOLDERS_MAX,
              watch->root);
    return error_hint(err, "watch a smaller folder, or not the folders in it");
}

/* 1 when it is watched from now on, 0 when it was already or cannot be, with errno. */
static int enter_folder(struct watch *watch, const char *name, struct error *err)
{
    cleanup_free char *path = file_path_join(watch->root, name);
    uint32_t mask = CHANGES | WATCH_ENDS | IN_ONLYDIR | IN_DONT_FOLLOW | IN_EXCL_UNLINK;
    int wd = inotify_add_watch(watch->fd, path, mask);
    if (wd < 0)
        return errno == ENOSPC || errno == ENOMEM ? too_many(watch, err) : 0;
    if (watch_find_folder(watch, wd))
        return 0;
    if (watch->folder_count == WATCH_FOLDERS_MAX)
        return too_many(watch, err);
    watch->folders[watch->folder_count++] = (struct watch_folder){.wd = wd, .name = xstrdup(name)};
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
    if (watch_tell(watch, WATCH_CREATE, name, NULL, err) < 0)
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

int watch_enter_new(struct watch *watch, const char *name, struct error *err)
{
    if (!watch->recursive)
        return 0;
    int entered = enter_folder(watch, name, err);
    return entered <= 0 ? entered : enter_entries(watch, name, true, err);
}

int watch_enter_root(struct watch *watch, struct error *err)
{
    while (watch->folder_count > 0)
        watch_forget_folder(watch, &watch->folders[watch->folder_count - 1]);
    watch_forget_listed(watch);
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
