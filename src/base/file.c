#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/sendfile.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/mem.h"

int file_read(const char *path, size_t limit, struct buf *out, struct error *err)
{
    cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return error_errno(err, errno, "cannot open %s", path);
    for (size_t room = 4096;; room = buf_length(out) < 4096 ? 4096 : buf_length(out)) {
        ssize_t got = read(fd, buf_reserve(out, room), room);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return error_errno(err, errno, "cannot read %s", path);
        if (got == 0)
            return 0;
        buf_commit(out, (size_t)got);
        if (buf_length(out) > limit)
            return error_set(err, ERROR_LIMIT, "%s is larger than %zu bytes", path, limit);
    }
}

int file_write_all(int fd, const void *bytes, size_t length)
{
    const char *at = bytes;
    while (length > 0) {
        ssize_t put = write(fd, at, length);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return -1;
        at += put;
        length -= (size_t)put;
    }
    return 0;
}

int file_write_atomic(const char *path, const void *bytes, size_t length, mode_t mode,
                      struct error *err)
{
    cleanup_free char *temporary = xasprintf("%s.new-%d", path, (int)getpid());
    cleanup_fd int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
    if (fd < 0)
        return error_errno(err, errno, "cannot create %s", temporary);
    if (file_write_all(fd, bytes, length) == 0 && rename(temporary, path) == 0)
        return 0;
    int reason = errno;
    unlink(temporary);
    return error_errno(err, reason, "cannot write %s", path);
}

/* Data runs are copied, holes stay holes. */
static int copy_contents(int from, int to, off_t size)
{
    off_t data = 0;
    while (data < size && (data = lseek(from, data, SEEK_DATA)) >= 0) {
        off_t end = lseek(from, data, SEEK_HOLE);
        if (end < 0 || lseek(to, data, SEEK_SET) < 0)
            return -1;
        while (data < end) {
            ssize_t put = sendfile(to, from, &data, (size_t)(end - data));
            if (put <= 0)
                return -1;
        }
    }
    if (data < 0 && errno != ENXIO)
        return -1;
    return ftruncate(to, size);
}

int file_copy(const char *from, const char *to, mode_t mode, struct error *err)
{
    cleanup_fd int source = open(from, O_RDONLY | O_CLOEXEC);
    if (source < 0)
        return error_errno(err, errno, "cannot open %s", from);
    cleanup_fd int target = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
    if (target < 0)
        return error_errno(err, errno, "cannot create %s", to);
    struct stat status;
    if (fstat(source, &status) < 0 || copy_contents(source, target, status.st_size) < 0) {
        int reason = errno;
        unlink(to);
        return error_errno(err, reason, "cannot copy %s to %s", from, to);
    }
    return 0;
}

bool file_exists(const char *path)
{
    return access(path, F_OK) == 0;
}

int folder_make(const char *path, mode_t mode, struct error *err)
{
    cleanup_free char *partial = xstrdup(path);
    for (char *at = partial + 1;; at++) {
        if (*at != '/' && *at != '\0')
            continue;
        char kept = *at;
        *at = '\0';
        if (mkdir(partial, mode) < 0 && errno != EEXIST)
            return error_errno(err, errno, "cannot create folder %s", partial);
        *at = kept;
        if (kept == '\0')
            break;
    }
    struct stat status;
    if (stat(path, &status) < 0)
        return error_errno(err, errno, "cannot use folder %s", path);
    if (!S_ISDIR(status.st_mode))
        return error_set(err, ERROR_INVALID, "%s is not a folder", path);
    return 0;
}

static int remove_entries(int folder_fd)
{
    DIR *folder = fdopendir(folder_fd);
    if (!folder) {
        fd_close(folder_fd);
        return -1;
    }
    int result = 0;
    const struct dirent *entry;
    while (result == 0 && (entry = readdir(folder))) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (unlinkat(dirfd(folder), entry->d_name, 0) == 0 || errno == ENOENT)
            continue;
        if (errno != EISDIR && errno != EPERM) {
            result = -1;
            break;
        }
        int child =
            openat(dirfd(folder), entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (child < 0 || remove_entries(child) < 0 ||
            (unlinkat(dirfd(folder), entry->d_name, AT_REMOVEDIR) < 0 && errno != ENOENT))
            result = -1;
    }
    int reason = errno;
    closedir(folder);
    errno = reason;
    return result;
}

int folder_remove(const char *path, struct error *err)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? 0 : error_errno(err, errno, "cannot open folder %s", path);
    if (remove_entries(fd) < 0 || (rmdir(path) < 0 && errno != ENOENT))
        return error_errno(err, errno, "cannot remove %s", path);
    return 0;
}

int folder_remove_empty(int parent, const char *name)
{
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;
    const struct dirent *entry;
    while (folder && (entry = readdir(folder))) {
        if (entry->d_type == DT_DIR && entry->d_name[0] != '.')
            folder_remove_empty(fd, entry->d_name);
    }
    if (folder)
        closedir(folder);
    return unlinkat(parent, name, AT_REMOVEDIR);
}

int folder_free_space(const char *path, uint64_t *bytes, struct error *err)
{
    struct statvfs status;
    if (statvfs(path, &status) < 0)
        return error_errno(err, errno, "cannot tell the free space of %s", path);
    *bytes = (uint64_t)status.f_bavail * status.f_frsize;
    return 0;
}

int file_lock(const char *path, bool wait, struct error *err)
{
    cleanup_fd int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return error_errno(err, errno, "cannot open lock %s", path);
    while (flock(fd, LOCK_EX | (wait ? 0 : LOCK_NB)) < 0) {
        if (errno == EWOULDBLOCK)
            return error_set(err, ERROR_BUSY, "%s is locked by another process", path);
        if (errno != EINTR)
            return error_errno(err, errno, "cannot lock %s", path);
    }
    return steal_fd(&fd);
}
