#include "base/log_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"

static struct {
    char *path;
    int fd;
} file = {.fd = -1};

static int open_file(void)
{
    return open(file.path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0600);
}

/* Whether the path still leads to the open file; another process may have moved it away. */
static bool is_current(struct stat *status)
{
    struct stat named;
    return fstat(file.fd, status) == 0 && stat(file.path, &named) == 0 &&
           named.st_ino == status->st_ino && named.st_dev == status->st_dev;
}

static void move_files(void)
{
    for (int number = LOG_FILES_KEPT; number > 0; number--) {
        cleanup_free char *to = xasprintf("%s.%d", file.path, number);
        cleanup_free char *from =
            number > 1 ? xasprintf("%s.%d", file.path, number - 1) : xstrdup(file.path);
        rename(from, to);
    }
}

/* Two processes may find the file full at once: the second sees that it was moved. */
static void rotate(void)
{
    struct stat status;
    if (flock(file.fd, LOCK_EX) == 0 && is_current(&status) && status.st_size >= LOG_FILE_MAX)
        move_files();
    flock(file.fd, LOCK_UN);
}

static void write_line(const void *line, size_t length)
{
    struct stat status;
    bool current = is_current(&status);
    if (current && S_ISREG(status.st_mode) && status.st_size >= LOG_FILE_MAX) {
        rotate();
        current = false;
    }
    if (!current) {
        fd_close(file.fd);
        file.fd = open_file();
    }
    ssize_t ignored = write(file.fd < 0 ? STDERR_FILENO : file.fd, line, length);
    (void)ignored;
}

const char *log_file_path(void)
{
    return file.path;
}

static int use_file(const char *path, struct error *err)
{
    cleanup_free char *folder = realpath(".", NULL);
    free(file.path);
    file.path = path[0] == '/' ? xstrdup(path) : xasprintf("%s/%s", folder ? folder : "", path);
    fd_close(file.fd);
    file.fd = open_file();
    if (file.fd < 0) {
        error_errno(err, errno, "cannot write the log %s", file.path);
        return error_hint(err, "MSB_LOG_FILE names another file");
    }
    log_set_writer(write_line);
    return 0;
}

/* The position of the variable's value in the list, -1 when it is not set. */
static int choose(const char *variable, const char *const *words, int *chosen, struct error *err)
{
    const char *wanted = getenv(variable);
    *chosen = -1;
    if (!wanted || !wanted[0])
        return 0;
    for (int i = 0; words[i]; i++) {
        if (strcmp(words[i], wanted) == 0)
            *chosen = i;
    }
    return *chosen >= 0 ? 0
                        : error_set(err, ERROR_INVALID, "%s cannot be \"%.40s\"", variable, wanted);
}

int log_configure(enum log_level usual, const char *path, struct error *err)
{
    static const char *const levels[] = {"error", "warn", "info", "debug", NULL};
    static const char *const formats[] = {"console", "json", NULL};
    const char *wanted = getenv("MSB_LOG_FILE");
    int level, format;
    if (choose(getenv("MSB_LOG_LEVEL") ? "MSB_LOG_LEVEL" : "MSB_LOG", levels, &level, err) < 0)
        return error_hint(err, "use error, warn, info or debug");
    if (choose("MSB_LOG_FORMAT", formats, &format, err) < 0)
        return error_hint(err, "use json or console");
    if (wanted && wanted[0])
        path = wanted;
    if (path && use_file(path, err) < 0)
        return -1;
    log_set_level(level < 0 ? usual : (enum log_level)level);
    if (format < 0)
        format = path ? LOG_JSON : LOG_CONSOLE;
    log_set_format((enum log_format)format);
    return 0;
}
