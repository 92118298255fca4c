/*
 * What changes in a folder from one moment to another: a picture of what is there, in the order of
 * a walk, and a second walk that is compared with it step by step.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "agent/file_record.h"
#include "agent/file_work.h"
#include "base/mem.h"

#define PATHS_MAX (32u * 1024 * 1024)

struct seen {
    uint32_t path; /* where it begins in `paths` */
    mode_t type;
    ino_t inode;
    off_t size;
    struct timespec mtime;
};

struct picture {
    size_t root_length; /* of the path that all others begin with */
    dev_t device;
    const char *root;
    struct buf paths; /* below the root, each ended by NUL */
    struct buf entries;
    size_t next; /* the first that the second walk has not come to */
};

static size_t entry_count(const struct picture *picture)
{
    return buf_length(&picture->entries) / sizeof(struct seen);
}

static const struct seen *entry_at(const struct picture *picture, size_t index)
{
    return (const struct seen *)buf_data(&picture->entries) + index;
}

static const char *path_of(const struct picture *picture, const struct seen *seen)
{
    return (const char *)buf_data(&picture->paths) + seen->path;
}

/* Other file systems are somebody else's, and our temporary files nobody's. */
static int step_at(const struct picture *picture, const struct file_entry *entry)
{
    return entry->status.st_dev == picture->device ? FILE_STEP_ENTER : FILE_STEP_OVER;
}

static int remember(void *owner, const struct file_entry *entry, struct error *err)
{
    struct picture *picture = owner;
    const struct stat *status = &entry->status;
    if (file_is_temporary(entry->name))
        return FILE_STEP_OVER;
    const char *path = entry->path + picture->root_length;
    if (buf_length(&picture->paths) + strlen(path) > PATHS_MAX)
        return error_set(err, ERROR_LIMIT, "the paths below %.300s are too long to keep",
                         picture->root);
    struct seen seen = {.path = (uint32_t)buf_length(&picture->paths),
                        .type = status->st_mode & S_IFMT,
                        .inode = status->st_ino,
                        .size = status->st_size,
                        .mtime = status->st_mtim};
    buf_append(&picture->paths, path, strlen(path) + 1);
    buf_append(&picture->entries, &seen, sizeof seen);
    return step_at(picture, entry);
}

/* The order of a walk: what is in a folder comes right after it. */
static int compare_paths(const char *one, const char *other)
{
    while (*one && *one == *other) {
        one++;
        other++;
    }
    if (*one && *other && (*one == '/' || *other == '/'))
        return *one == '/' ? -1 : 1;
    return (unsigned char)*one - (unsigned char)*other;
}

static int tell_removed(struct picture *picture, struct error *err)
{
    const struct seen *seen = entry_at(picture, picture->next++);
    cleanup_buf struct buf record = {0};
    cleanup_free char *path =
        xasprintf("%.*s%s", (int)picture->root_length, picture->root, path_of(picture, seen));
    file_record_text(&record, "change", "removed");
    file_record_path(&record, path, seen->type);
    return file_record_add(&record, err);
}

/* That of a folder is what is in it, which is told by itself. */
static bool is_same(const struct seen *seen, const struct stat *status)
{
    if (seen->type != (status->st_mode & S_IFMT) || seen->inode != status->st_ino)
        return false;
    return S_ISDIR(seen->type) ||
           (seen->size == status->st_size && seen->mtime.tv_sec == status->st_mtim.tv_sec &&
            seen->mtime.tv_nsec == status->st_mtim.tv_nsec);
}

static int compare(void *owner, const struct file_entry *entry, struct error *err)
{
    struct picture *picture = owner;
    if (file_is_temporary(entry->name))
        return FILE_STEP_OVER;
    const char *path = entry->path + picture->root_length;
    int order = 1;
    while (picture->next < entry_count(picture)) {
        order = compare_paths(path_of(picture, entry_at(picture, picture->next)), path);
        if (order >= 0)
            break;
        if (tell_removed(picture, err) < 0)
            return -1;
    }
    bool known = order == 0;
    if (known && is_same(entry_at(picture, picture->next++), &entry->status))
        return step_at(picture, entry);
    cleanup_buf struct buf record = {0};
    file_record_text(&record, "change", known ? "changed" : "created");
    file_record_entry(&record, entry);
    return file_record_add(&record, err) < 0 ? -1 : step_at(picture, entry);
}

static int walk_all(const struct file_request *request, int fd, struct picture *picture,
                    int (*visit)(void *, const struct file_entry *, struct error *),
                    struct error *err)
{
    struct file_walk walk = {
        .depth = FILE_DEPTH_MAX, .left = request->limit, .visit = visit, .owner = picture};
    if (file_walk(&walk, fd, request->path, err) < 0)
        return -1;
    if (walk.cut)
        error_set(err, ERROR_LIMIT, "%.400s has more than %llu entries", request->path,
                  (unsigned long long)request->limit);
    else if (walk.deeper)
        error_set(err, ERROR_LIMIT, "folders are nested more than %u deep below %.400s",
                  FILE_DEPTH_MAX, request->path);
    else
        return 0;
    return error_hint(err, "ask for the changes in a smaller folder");
}

static int tell_ready(struct error *err)
{
    cleanup_buf struct buf record = {0};
    file_record_text(&record, "change", "ready");
    return file_record_add(&record, err) < 0 ? -1 : file_record_flush(err);
}

static void wait_for_end_of_input(void)
{
    char ignored[256];
    ssize_t got;
    do {
        got = read(STDIN_FILENO, ignored, sizeof ignored);
    } while (got > 0 || (got < 0 && errno == EINTR));
}

static int tell_changes(const struct file_request *request, struct picture *picture,
                        struct error *err)
{
    int fd = open(request->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 && errno != ENOENT)
        return error_errno(err, errno, "cannot list %.400s", request->path);
    if (fd >= 0 && walk_all(request, fd, picture, compare, err) < 0)
        return -1;
    while (picture->next < entry_count(picture)) {
        if (tell_removed(picture, err) < 0)
            return -1;
    }
    return file_record_flush(err);
}

int file_work_changes(const struct file_request *request, struct error *err)
{
    struct picture picture = {.root = request->path};
    struct stat status;
    int fd = open(request->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &status) < 0)
        return error_errno(err, errno, "cannot list %.400s", request->path);
    picture.root_length = strlen(request->path);
    picture.device = status.st_dev;
    if (walk_all(request, fd, &picture, remember, err) < 0 || tell_ready(err) < 0)
        return -1;
    wait_for_end_of_input();
    return tell_changes(request, &picture, err);
}
