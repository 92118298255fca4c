/* Telling what is there: one entry, or all of a folder. */
#include <errno.h>
#include <fcntl.h>

#include "agent/file_record.h"
#include "agent/file_work.h"
#include "base/mem.h"

static int tell_entry(void *owner, const struct file_entry *entry, struct error *err)
{
    (void)owner;
    cleanup_buf struct buf record = {0};
    file_record_entry(&record, entry);
    return file_record_add(&record, err) < 0 ? -1 : FILE_STEP_ENTER;
}

int file_work_stat(const struct file_request *request, struct error *err)
{
    const char *path = request->path;
    struct file_entry entry = {.folder = AT_FDCWD, .name = path, .path = path};
    cleanup_fd int fd = file_work_open(request, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &entry.status) < 0)
        return error_errno(err, errno, "cannot look at %.400s", path);
    return tell_entry(NULL, &entry, err) < 0 ? -1 : file_record_flush(err);
}

int file_work_list(const struct file_request *request, struct error *err)
{
    struct file_walk walk = {.depth = request->depth, .left = request->limit, .visit = tell_entry};
    int fd = file_work_open(request, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return error_errno(err, errno, "cannot list %.400s", request->path);
    if (file_walk(&walk, fd, request->path, err) < 0 || file_record_flush(err) < 0)
        return -1;
    if (!walk.cut)
        return 0;
    error_set(err, ERROR_LIMIT, "%.400s has more than %llu entries", request->path,
              (unsigned long long)request->limit);
    return error_hint(err, "list its folders one by one, or less deep");
}
