#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "cli/command.h"
#include "server/server.h"

#define PIECE 65536

static struct {
    bool follow;
    unsigned tail;
} options = {.tail = 100};

/* Where the last `lines` lines begin. */
static off_t find_tail(int fd, unsigned lines)
{
    static char bytes[PIECE];
    off_t end = lseek(fd, 0, SEEK_END), at = end;
    unsigned found = 0;
    while (at > 0) {
        off_t start = at > PIECE ? at - PIECE : 0;
        ssize_t got = pread(fd, bytes, (size_t)(at - start), start);
        for (ssize_t i = got; i > 0; i--) {
            if (bytes[i - 1] == '\n' && start + i < end && ++found == lines)
                return start + i;
        }
        at = got > 0 ? start : 0;
    }
    return lines > 0 ? 0 : end;
}

/* False: nobody reads any more. */
static bool print_rest(int fd)
{
    static char bytes[PIECE];
    ssize_t got;
    while ((got = read(fd, bytes, sizeof bytes)) > 0) {
        if (file_write_all(STDOUT_FILENO, bytes, (size_t)got) < 0)
            return false;
    }
    return true;
}

static bool was_moved(int fd, const char *path)
{
    struct stat open_file, named;
    return fstat(fd, &open_file) == 0 && stat(path, &named) == 0 &&
           (named.st_ino != open_file.st_ino || named.st_dev != open_file.st_dev);
}

/* The folder tells of both: bytes added to the file, and a new file in its place. */
static int watch_folder(const char *path, struct error *err)
{
    cleanup_free char *folder = xstrdup(path);
    *strrchr(folder, '/') = '\0';
    cleanup_fd int watch = inotify_init1(IN_CLOEXEC);
    if (watch < 0 ||
        inotify_add_watch(watch, folder[0] ? folder : "/", IN_MODIFY | IN_CREATE | IN_MOVE) < 0)
        return error_errno(err, errno, "cannot watch %s", folder);
    return steal_fd(&watch);
}

static int follow(int *fd, const char *path, int watch, struct error *err)
{
    char events[4096];
    while (print_rest(*fd)) {
        if (was_moved(*fd, path)) {
            /* What came until it was moved is still to be shown. */
            int next = open(path, O_RDONLY | O_CLOEXEC);
            if (!print_rest(*fd))
                break;
            fd_close(*fd);
            *fd = next;
            continue;
        }
        if (read(watch, events, sizeof events) < 0 && errno != EINTR)
            return error_errno(err, errno, "cannot watch the log");
    }
    return 0;
}

static int show(const char *path, struct error *err)
{
    /* Watching begins first: nothing is missed between. */
    cleanup_fd int watch = options.follow ? watch_folder(path, err) : -1;
    if (options.follow && watch < 0)
        return -1;
    cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return error_errno(err, errno, "cannot open the log %s", path);
    lseek(fd, find_tail(fd, options.tail), SEEK_SET);
    if (options.follow)
        return follow(&fd, path, watch, err);
    print_rest(fd);
    return 0;
}

static int run(const struct arguments *arguments)
{
    struct error err;
    struct server_info info;
    if (arguments->count > 0) {
        error_set(&err, ERROR_INVALID, "\"%.60s\" is too much here", arguments->words[0]);
        return report_error(&err, EXIT_USAGE);
    }
    if (server_find_last(&info, &err) < 0)
        return report_error(&err, EXIT_SANDBOX);
    if (!info.log[0]) {
        error_set(&err, ERROR_NOT_FOUND, "the server writes its log to its own stderr");
        error_hint(&err, "start it with --detach, or name a file in MSB_LOG_FILE");
        return report_error(&err, EXIT_SANDBOX);
    }
    return show(info.log, &err) < 0 ? report_error(&err, EXIT_SANDBOX) : 0;
}

static const struct option option_table[] = {
    {'f', "follow", OPTION_FLAG, &options.follow, NULL, "go on with what is added, until Ctrl-C"},
    {'n', "tail", OPTION_COUNT, &options.tail, "N", "how many lines from the end (100)"},
    {0},
};

const struct command server_log_command = {
    .name = "server log",
    .summary = "show the log of the server",
    .usage = "server log [OPTIONS]",
    .description =
        "Prints the end of the log of the server that runs, or ran last. A server started with\n"
        "--detach has one in the home folder, any other one where MSB_LOG_FILE says. It begins\n"
        "anew at 10 MB; five older parts stay beside it.",
    .examples = "  msb server log --tail 20\n"
                "  msb server log --follow | jq -c 'select(.code)'\n",
    .options = option_table,
    .run = run,
};
