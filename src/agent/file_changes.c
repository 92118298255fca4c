/*
 * What changes in a folder from one moment to another: pictures of what is there, in the order of
 * a walk. While one is taken it is compared with the one before, step by step.
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
    struct buf paths; /* below the root, each ended by NUL */
    struct buf entries;
};

struct report {
    const struct file_request *request;
    size_t root_length; /* of the path that all others begin with */
    dev_t device;
    bool first; /* there is no picture to compare with */
    struct picture before;
    struct picture now;
    size_t next; /* the first of `before` that the walk has not come to */
};

static const struct seen *next_of_before(const struct report *report)
{
    const struct seen *entries = (const struct seen *)buf_data(&report->before.entries);
    size_t count = buf_length(&report->before.entries) / sizeof *entries;
    return report->next < count ? &entries[report->next] : NULL;
}

static const char *path_of(const struct report *report, const struct seen *seen)
{
    return (const char *)buf_data(&report->before.paths) + seen->path;
}

static int remember(struct report *report, const struct stat *status, const char *path,
                    struct error *err)
{
    struct picture *now = &report->now;
    if (buf_length(&now->paths) + strlen(path) > PATHS_MAX)
        return error_set(err, ERROR_LIMIT, "the paths below %.300s are too long to keep",
                         report->request->path);
    struct seen seen = {.path = (uint32_t)buf_length(&now->paths),
                        .type = status->st_mode & S_IFMT,
                        .inode = status->st_ino,
                        .size = status->st_size,
                        .mtime = status->st_mtim};
    buf_append(&now->paths, path, strlen(path) + 1);
    buf_append(&now->entries, &seen, sizeof seen);
    return 0;
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

static int tell_removed(struct report *report, const struct seen *seen, struct error *err)
{
    cleanup_buf struct buf record = {0};
    cleanup_free char *path = xasprintf("%s%s", report->request->path, path_of(report, seen));
    report->next++;
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

static int compare(struct report *report, const struct file_entry *entry, const char *path,
                   struct error *err)
{
    const struct seen *seen;
    int order = 1;
    while ((seen = next_of_before(report)) &&
           (order = compare_paths(path_of(report, seen), path)) < 0) {
        if (tell_removed(report, seen, err) < 0)
            return -1;
    }
    bool known = seen && order == 0;
    report->next += known;
    if (known && is_same(seen, &entry->status))
        return 0;
    cleanup_buf struct buf record = {0};
    file_record_text(&record, "change", known ? "changed" : "created");
    file_record_entry(&record, entry);
    return file_record_add(&record, err);
}

/* Other file systems are somebody else's, and our temporary files nobody's. */
static int visit(void *owner, const struct file_entry *entry, struct error *err)
{
    struct report *report = owner;
    const char *path = entry->path + report->root_length;
    if (file_is_temporary(entry->name))
        return FILE_STEP_OVER;
    if (remember(report, &entry->status, path, err) < 0 ||
        (!report->first && compare(report, entry, path, err) < 0))
        return -1;
    return entry->status.st_dev == report->device ? FILE_STEP_ENTER : FILE_STEP_OVER;
}

static int walk_all(struct report *report, int fd, struct error *err)
{
    const struct file_request *request = report->request;
    struct file_walk walk = {
        .depth = FILE_DEPTH_MAX, .left = request->limit, .visit = visit, .owner = report};
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

/* A folder that has gone since has nothing in it. */
static int look(struct report *report, struct error *err)
{
    const struct seen *seen;
    struct stat status;
    int fd = open(report->request->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 && (report->first || errno != ENOENT))
        return error_errno(err, errno, "cannot list %.400s", report->request->path);
    if (fd >= 0 && fstat(fd, &status) == 0)
        report->device = status.st_dev;
    if (fd >= 0 && walk_all(report, fd, err) < 0)
        return -1;
    while ((seen = next_of_before(report))) {
        if (tell_removed(report, seen, err) < 0)
            return -1;
    }
    return 0;
}

static void turn_page(struct report *report)
{
    buf_free(&report->before.paths);
    buf_free(&report->before.entries);
    report->before = report->now;
    report->now = (struct picture){0};
    report->next = 0;
    report->first = false;
}

static int tell_ready(struct error *err)
{
    cleanup_buf struct buf record = {0};
    file_record_text(&record, "change", "ready");
    return file_record_add(&record, err) < 0 ? -1 : file_record_flush(err);
}

/* False at the end of the input. */
static bool wait_for_input(void)
{
    char ignored[256];
    ssize_t got;
    do {
        got = read(STDIN_FILENO, ignored, sizeof ignored);
    } while (got < 0 && errno == EINTR);
    return got > 0;
}

int file_work_changes(const struct file_request *request, struct error *err)
{
    struct report report = {
        .request = request, .root_length = strlen(request->path), .first = true};
    bool more;
    do {
        if (look(&report, err) < 0 || tell_ready(err) < 0)
            return -1;
        turn_page(&report);
        more = wait_for_input();
    } while (more);
    return look(&report, err) < 0 ? -1 : file_record_flush(err);
}
