#include "agent/file_walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/mem.h"

static int compare_names(const void *one, const void *other)
{
    return strcmp(*(char *const *)one, *(char *const *)other);
}

/* The sorted names in a folder, as many as may still be visited. */
static char **read_names(DIR *folder, struct file_walk *walk)
{
    char **names = NULL;
    size_t count = 0;
    size_t capacity = 0;
    const struct dirent *entry;
    while ((entry = readdir(folder))) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (walk->left == 0) {
            walk->cut = true;
            break;
        }
        walk->left--;
        if (count + 1 >= capacity) {
            capacity = capacity ? capacity * 2 : 64;
            names = xrealloc(names, capacity * sizeof *names);
        }
        names[count++] = xstrdup(entry->d_name);
        names[count] = NULL;
    }
    if (count > 1)
        qsort(names, count, sizeof *names, compare_names);
    return names;
}

char *file_path_join(const char *folder, const char *name)
{
    size_t length = strlen(folder);
    return xasprintf("%s%s%s", folder, length == 0 || folder[length - 1] == '/' ? "" : "/", name);
}

static int walk_folder(struct file_walk *walk, int fd, const char *path, uint64_t level,
                       struct error *err);

static int walk_entry(struct file_walk *walk, int folder, const char *name, const char *path,
                      uint64_t level, struct error *err)
{
    cleanup_free char *full = file_path_join(path, name);
    struct file_entry entry = {.folder = folder, .name = name, .path = full};
    /* What has just been removed or may not be entered is no reason to keep the rest back. */
    if (fstatat(folder, name, &entry.status, AT_SYMLINK_NOFOLLOW) < 0)
        return 0;
    int step = walk->visit(walk->owner, &entry, err);
    if (step != FILE_STEP_ENTER || !S_ISDIR(entry.status.st_mode))
        return step < 0 ? -1 : 0;
    if (level >= walk->depth) {
        walk->deeper = true;
        return 0;
    }
    int fd = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? 0 : walk_folder(walk, fd, full, level + 1, err);
}

static int walk_folder(struct file_walk *walk, int fd, const char *path, uint64_t level,
                       struct error *err)
{
    DIR *folder = fdopendir(fd);
    if (!folder) {
        error_errno(err, errno, "cannot list %.400s", path);
        fd_close(fd);
        return -1;
    }
    cleanup_strv char **names = read_names(folder, walk);
    int result = 0;
    for (char **name = names; result == 0 && name && *name; name++)
        result = walk_entry(walk, fd, *name, path, level, err);
    closedir(folder);
    return result;
}

int file_walk(struct file_walk *walk, int fd, const char *path, struct error *err)
{
    if (walk->depth == 0) {
        fd_close(fd);
        return 0;
    }
    return walk_folder(walk, fd, path, 1, err);
}
