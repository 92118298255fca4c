/* Reading and writing what is in a file. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "agent/file_work.h"
#include "base/file.h"
#include "base/mem.h"

#define PIECE (256u * 1024)
#define DIRECT_AT (4 * PIECE)
/* V9FS_MAGIC of <linux/magic.h>, which musl does not bring. */
#define VOLUME_FILE_SYSTEM 0x01021997

static uint8_t piece[PIECE] __attribute__((aligned(4096)));

/* Copies by hand; -1 with errno. */
static ssize_t pass_piece(int from, int to, size_t size)
{
    ssize_t got;
    do {
        got = read(from, piece, size);
    } while (got < 0 && errno == EINTR);
    return got > 0 && file_write_all(to, piece, (size_t)got) < 0 ? -1 : got;
}

/* Within the kernel, except where the file system has no way to do that. */
static ssize_t send_piece(int fd, size_t size)
{
    ssize_t put = sendfile(STDOUT_FILENO, fd, NULL, size);
    if (put < 0 && (errno == EINVAL || errno == ENOSYS))
        return pass_piece(fd, STDOUT_FILENO, size);
    return put;
}

int file_work_read(const struct file_request *request, struct error *err)
{
    const char *path = request->path;
    cleanup_fd int fd = file_work_open(request, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return error_errno(err, errno, "cannot open %.400s", path);
    struct stat status;
    if (fstat(fd, &status) == 0 && S_ISDIR(status.st_mode))
        return error_set(err, ERROR_INVALID, "%.400s is a folder", path);
    if (request->offset && lseek(fd, (off_t)request->offset, SEEK_SET) < 0)
        return error_errno(err, errno, "cannot read %.400s from the middle", path);
    for (uint64_t left = request->length; left > 0;) {
        ssize_t sent = send_piece(fd, left < PIECE ? (size_t)left : PIECE);
        if (sent < 0)
            return error_errno(err, errno, "cannot read %.400s", path);
        if (sent == 0)
            break;
        left -= (uint64_t)sent;
    }
    return 0;
}

/* As much as fits a piece, less only at the end; -1 with errno. */
static ssize_t read_piece(void)
{
    size_t filled = 0;
    while (filled < PIECE) {
        ssize_t got = read(STDIN_FILENO, piece + filled, PIECE - filled);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        filled += (size_t)got;
    }
    return (ssize_t)filled;
}

/* Whether the file takes what is written past the memory of the machine, from now on or no more. */
static bool set_direct(int fd, bool direct)
{
    int flags = fcntl(fd, F_GETFL);
    return fcntl(fd, F_SETFL, direct ? flags | O_DIRECT : flags & ~O_DIRECT) == 0;
}

static int take_input(int fd, const char *path, struct error *err)
{
    for (;;) {
        ssize_t got = read_piece();
        if (got < 0 || (got > 0 && file_write_all(fd, piece, (size_t)got) < 0))
            return error_errno(err, errno, "cannot write %.400s", path);
        if (got < (ssize_t)PIECE)
            return 0;
    }
}

/*
 * Large files go straight to the disk, which takes half the time and leaves the memory to others.
 * Whole pieces only: they begin and end where blocks do.
 */
static int take_input_anew(int fd, const char *path, struct error *err)
{
    bool direct = false;
    for (uint64_t taken = 0;; taken += PIECE) {
        ssize_t got = read_piece();
        if (taken == DIRECT_AT)
            direct = set_direct(fd, true);
        if (direct && got < (ssize_t)PIECE)
            direct = !set_direct(fd, false);
        if (got < 0 || (got > 0 && file_write_all(fd, piece, (size_t)got) < 0))
            return error_errno(err, errno, "cannot write %.400s", path);
        if (got < (ssize_t)PIECE)
            return 0;
    }
}

/* Appends, or writes to what is no plain file and cannot be replaced. */
static int write_in_place(const struct file_request *request, const char *path, bool exists,
                          struct error *err)
{
    int flags = O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY | (exists ? 0 : O_CREAT);
    cleanup_fd int fd = open(path, flags, 0666);
    if (fd < 0)
        return error_errno(err, errno, "cannot open %.400s", path);
    if (!exists && request->has_mode && fchmod(fd, request->mode) < 0)
        return error_errno(err, errno, "cannot set the mode of %.400s", path);
    return take_input(fd, path, err);
}

/*
 * The new file looks like the one it replaces, `old`, which may be NULL. Its owner only where we
 * may give files away; bits that lend the owner's rights never.
 */
static int set_looks(const struct file_request *request, int fd, const struct stat *old)
{
    mode_t mode = request->has_mode ? request->mode : old ? old->st_mode & 0777 : 0644;
    if (old)
        fchown(fd, old->st_uid, old->st_gid);
    return fchmod(fd, mode);
}

/*
 * Volumes outlive the machine, so what is written there has to have arrived. Its own disk ends with
 * it, and waiting for that would be for nothing.
 */
static bool is_on_volume(int fd)
{
    struct statfs status;
    return fstatfs(fd, &status) == 0 && status.f_type == VOLUME_FILE_SYSTEM;
}

static int write_anew(const struct file_request *request, const char *path, const struct stat *old,
                      struct error *err)
{
    /* Replacing needs rights to the folder only; a file that may not be written stays as it is. */
    if (old && access(path, W_OK) < 0)
        return error_errno(err, errno, "cannot write %.400s", path);
    cleanup_fd int fd = file_work_begin(path, err);
    if (fd < 0)
        return -1;
    int result = take_input_anew(fd, path, err);
    if (result < 0)
        return result;
    if (set_looks(request, fd, old) < 0 || (is_on_volume(fd) && fsync(fd) < 0))
        return error_errno(err, errno, "cannot write %.400s", path);
    return file_work_commit(path, err);
}

int file_work_write(const struct file_request *request, struct error *err)
{
    int result = file_work_make_parents(request, request->path, err);
    if (result < 0)
        return result;
    /* A link stays: what it leads to is written. */
    cleanup_free char *resolved = realpath(request->path, NULL);
    const char *path = resolved ? resolved : request->path;
    struct stat status;
    bool exists = stat(path, &status) == 0;
    if (exists && S_ISDIR(status.st_mode))
        return error_set(err, ERROR_INVALID, "%.400s is a folder", request->path);
    if (request->append || (exists && !S_ISREG(status.st_mode)))
        return write_in_place(request, path, exists, err);
    return write_anew(request, path, exists ? &status : NULL, err);
}
