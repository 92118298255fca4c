#include "cli/follow.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/file.h"
#include "base/mem.h"

#define PIECE 65536

struct follow {
    const char *folder;
    int fd;
    uint64_t inode;
};

static int open_log(struct follow *follow, const char *name, struct error *err)
{
    struct stat status;
    cleanup_free char *path = xasprintf("%s/%s", follow->folder, name);
    follow->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (follow->fd < 0)
        return error_errno(err, errno, "cannot read %s", path);
    fstat(follow->fd, &status);
    follow->inode = status.st_ino;
    return 0;
}

/* From where the file stands to its end. Starts anew when it was cut off: a new run began. */
static int copy(struct follow *follow, struct error *err)
{
    char piece[PIECE];
    struct stat status;
    if (fstat(follow->fd, &status) == 0 && lseek(follow->fd, 0, SEEK_CUR) > status.st_size)
        lseek(follow->fd, 0, SEEK_SET);
    for (;;) {
        ssize_t got = read(follow->fd, piece, sizeof piece);
        if (got < 0)
            return error_errno(err, errno, "cannot read the log in %s", follow->folder);
        if (got == 0)
            return 0;
        if (file_write_all(STDOUT_FILENO, piece, (size_t)got) < 0)
            return error_errno(err, errno, "cannot write the output");
    }
}

/* Goes back from the end until so many lines are behind; returns how many were not found. */
static unsigned seek_lines(int fd, unsigned lines)
{
    char piece[PIECE];
    off_t end = lseek(fd, 0, SEEK_END), at = end;
    while (at > 0 && lines > 0) {
        size_t size = at < PIECE ? (size_t)at : PIECE;
        at -= (off_t)size;
        if (pread(fd, piece, size, at) != (ssize_t)size)
            break;
        for (size_t i = size; i > 0; i--) {
            bool is_last_byte = at + (off_t)i == end;
            if (piece[i - 1] != '\n' || is_last_byte || --lines > 0)
                continue;
            lseek(fd, at + (off_t)i, SEEK_SET);
            return 0;
        }
    }
    lseek(fd, lines > 0 ? 0 : end, SEEK_SET);
    return lines;
}

/* The part before the last, as far as it is wanted. */
static int print_earlier(const char *folder, unsigned lines, struct error *err)
{
    struct error ignored;
    struct follow earlier = {.folder = folder};
    if (lines == 0 || open_log(&earlier, "output.log.1", &ignored) < 0)
        return 0;
    if (lines != FOLLOW_ALL)
        seek_lines(earlier.fd, lines);
    int result = copy(&earlier, err);
    close(earlier.fd);
    return result;
}

static int begin(struct follow *follow, unsigned lines, struct error *err)
{
    int result = open_log(follow, "output.log", err);
    if (result < 0)
        return result;
    unsigned missing = lines == FOLLOW_ALL ? lines : seek_lines(follow->fd, lines);
    result = print_earlier(follow->folder, missing, err);
    return result < 0 ? result : copy(follow, err);
}

int follow_print(const char *folder, unsigned lines, struct error *err)
{
    struct follow follow = {.folder = folder, .fd = -1};
    int result = begin(&follow, lines, err);
    fd_close(follow.fd);
    return result;
}

/* What was added, also when the log has gone on in a new file meanwhile. */
static int advance(struct follow *follow, struct error *err)
{
    struct stat status;
    cleanup_free char *path = xasprintf("%s/output.log", follow->folder);
    int result = copy(follow, err);
    if (result < 0 || stat(path, &status) < 0 || status.st_ino == follow->inode)
        return result;
    fd_close(follow->fd);
    result = open_log(follow, "output.log", err);
    return result < 0 ? result : copy(follow, err);
}

/* 0: go on, 1: it is over. */
static int wait_for_more(int notices, int connection, struct error *err)
{
    char events[4096];
    struct pollfd waits[] = {{.fd = notices, .events = POLLIN},
                             {.fd = connection, .events = POLLIN | POLLRDHUP},
                             {.fd = cancel_fd(), .events = POLLIN}};
    if (poll(waits, 3, -1) < 0 && errno != EINTR)
        return error_errno(err, errno, "cannot wait for more output");
    if (waits[0].revents && read(notices, events, sizeof events) < 0)
        return error_errno(err, errno, "cannot watch the log");
    return waits[1].revents || waits[2].revents;
}

int follow_run(const char *folder, unsigned lines, int connection, struct error *err)
{
    struct follow follow = {.folder = folder, .fd = -1};
    cleanup_fd int notices = inotify_init1(IN_CLOEXEC);
    if (notices < 0 || inotify_add_watch(notices, folder, IN_MODIFY | IN_CREATE | IN_MOVE) < 0)
        return error_errno(err, errno, "cannot watch %s", folder);
    int over = 0;
    int result = begin(&follow, lines, err);
    while (result == 0 && !over) {
        over = wait_for_more(notices, connection, err);
        result = over < 0 ? over : advance(&follow, err);
    }
    fd_close(follow.fd);
    return result;
}
