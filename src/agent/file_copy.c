/* Copies within the sandbox, of files and of whole folders. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/file_work.h"
#include "base/mem.h"

#define PIECE (16u * 1024 * 1024)

/* Shares blocks where the file system can, else copies within the kernel. -1 with errno. */
static ssize_t copy_piece(int from, int to)
{
    ssize_t put = copy_file_range(from, NULL, to, NULL, PIECE, 0);
    if (put > 0 ||
        (put < 0 && errno != EXDEV && errno != EINVAL && errno != ENOSYS && errno != EOPNOTSUPP))
        return put;
    /* Nothing copied may also mean a file that only looks empty, as in /proc. */
    return sendfile(to, from, NULL, PIECE);
}

static int copy_file(const char *from, const char *to, struct error *err)
{
    struct stat status;
    cleanup_fd int source = open(from, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (source < 0 || fstat(source, &status) < 0)
        return error_errno(err, errno, "cannot open %.400s", from);
    if (!S_ISREG(status.st_mode))
        return error_set(err, ERROR_INVALID, "%.400s is no plain file", from);
    cleanup_fd int target = file_work_begin(to, err);
    if (target < 0)
        return -1;
    ssize_t put;
    while ((put = copy_piece(source, target)) > 0) {
    }
    if (put < 0 || fchmod(target, status.st_mode & 0777) < 0)
        return error_errno(err, errno, "cannot copy %.300s to %.300s", from, to);
    return file_work_commit(to, err);
}

static int copy_link(const char *from, const char *to, struct error *err)
{
    char link[PATH_MAX];
    ssize_t length = readlink(from, link, sizeof link - 1);
    if (length < 0)
        return error_errno(err, errno, "cannot read the link %.400s", from);
    link[length] = '\0';
    if (symlink(link, to) < 0 && (errno != EEXIST || unlink(to) < 0 || symlink(link, to) < 0))
        return error_errno(err, errno, "cannot make the link %.400s", to);
    return 0;
}

static int copy_folder(const char *from, const char *to, mode_t mode, unsigned depth,
                       struct error *err);

static int copy_entry(const char *from, const char *to, unsigned depth, struct error *err)
{
    struct stat status;
    if (lstat(from, &status) < 0)
        return error_errno(err, errno, "cannot look at %.400s", from);
    if (S_ISLNK(status.st_mode))
        return copy_link(from, to, err);
    if (S_ISDIR(status.st_mode))
        return copy_folder(from, to, status.st_mode, depth + 1, err);
    return copy_file(from, to, err);
}

static int copy_entries(DIR *folder, const char *from, const char *to, unsigned depth,
                        struct error *err)
{
    const struct dirent *entry;
    while ((entry = readdir(folder))) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        cleanup_free char *source = xasprintf("%s/%s", from, entry->d_name);
        cleanup_free char *target = xasprintf("%s/%s", to, entry->d_name);
        int result = copy_entry(source, target, depth, err);
        if (result < 0)
            return result;
    }
    return 0;
}

/* The mode comes last: it may forbid to write into the folder. */
static int copy_folder(const char *from, const char *to, mode_t mode, unsigned depth,
                       struct error *err)
{
    if (depth > FILE_DEPTH_MAX)
        return error_set(err, ERROR_LIMIT, "folders are nested more than %u deep below %.300s",
                         FILE_DEPTH_MAX, from);
    bool made = mkdir(to, 0700) == 0;
    if (!made && errno != EEXIST)
        return error_errno(err, errno, "cannot make the folder %.400s", to);
    DIR *folder = opendir(from);
    if (!folder)
        return error_errno(err, errno, "cannot list %.400s", from);
    int result = copy_entries(folder, from, to, depth, err);
    closedir(folder);
    if (result == 0 && made && chmod(to, mode & 0777) < 0)
        return error_errno(err, errno, "cannot set the mode of %.400s", to);
    return result;
}

/* Whether what will be at `path` lies in the folder: such a copy would never end. */
static bool lies_in(const char *path, const struct stat *folder)
{
    cleanup_free char *copy = xstrdup(path);
    cleanup_fd int at = open(dirname(copy), O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct stat status;
    struct stat above;
    while (at >= 0 && fstat(at, &status) == 0) {
        if (status.st_dev == folder->st_dev && status.st_ino == folder->st_ino)
            return true;
        int parent = openat(at, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
        fd_close(at);
        at = parent;
        if (at >= 0 && fstat(at, &above) == 0 && above.st_dev == status.st_dev &&
            above.st_ino == status.st_ino)
            return false;
    }
    return false;
}

int file_work_copy(const struct file_request *request, struct error *err)
{
    const char *from = request->path;
    const char *to = request->target;
    struct stat status;
    struct stat present;
    if (stat(from, &status) < 0)
        return error_errno(err, errno, "cannot copy %.400s", from);
    if (file_work_make_parents(request, to, err) < 0)
        return -1;
    if (stat(to, &present) == 0 && present.st_dev == status.st_dev &&
        present.st_ino == status.st_ino)
        return error_set(err, ERROR_INVALID, "%.300s and %.300s are the same", from, to);
    if (!S_ISDIR(status.st_mode))
        return copy_file(from, to, err);
    if (!request->recursive) {
        error_set(err, ERROR_INVALID, "%.400s is a folder", from);
        return error_hint(err, "ask for it with everything in it");
    }
    if (lies_in(to, &status))
        return error_set(err, ERROR_INVALID, "%.300s cannot be copied into itself", from);
    return copy_folder(from, to, status.st_mode, 1, err);
}
