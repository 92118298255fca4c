#include "base/log_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/variables.h"

static struct {
    char *path;
    int fd;
    uint64_t size_max, kept;
    bool console; /* stderr too */
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
    for (uint64_t number = file.kept; number > 0; number--) {
        cleanup_free char *to = xasprintf("%s.%" PRIu64, file.path, number);
        cleanup_free char *from =
            number > 1 ? xasprintf("%s.%" PRIu64, file.path, number - 1) : xstrdup(file.path);
        rename(from, to);
    }
    if (file.kept == 0)
        unlink(file.path);
}

static bool is_full(const struct stat *status)
{
    return S_ISREG(status->st_mode) && (uint64_t)status->st_size >= file.size_max;
}

/* Two processes may find the file full at once: the second sees that it was moved. */
static void rotate(void)
{
    struct stat status;
    if (flock(file.fd, LOCK_EX) == 0 && is_current(&status) && is_full(&status))
        move_files();
    flock(file.fd, LOCK_UN);
}

static void write_line(const void *line, size_t length)
{
    struct stat status;
    bool current = is_current(&status);
    if (current && is_full(&status)) {
        rotate();
        current = false;
    }
    if (!current) {
        fd_close(file.fd);
        file.fd = open_file();
    }
    if (file.fd >= 0)
        file_write_all(file.fd, line, length);
    if (file.fd < 0 || file.console)
        file_write_all(STDERR_FILENO, line, length);
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

struct word {
    const char *name;
    int value;
};

/* What the variable's word stands for; left as it is when it is not set. */
static int choose(const char *variable, const struct word *words, const char *advice, int *value,
                  struct error *err)
{
    const char *wanted = variable_value(variable);
    if (!wanted)
        return 0;
    for (const struct word *word = words; word->name; word++) {
        if (strcasecmp(word->name, wanted) == 0) {
            *value = word->value;
            return 0;
        }
    }
    return variable_wrong(variable, advice, err);
}

static int choose_format(bool in_file, struct error *err)
{
    static const struct word formats[] = {{"console", LOG_CONSOLE}, {"json", LOG_JSON}, {0}};
    bool structured = in_file;
    int format;
    if (variable_flag("MSB_LOG_STRUCTURED", &structured, err) < 0)
        return -1;
    format = structured ? LOG_JSON : LOG_CONSOLE;
    if (choose("MSB_LOG_FORMAT", formats, "json or console", &format, err) < 0)
        return -1;
    log_set_format((enum log_format)format);
    return 0;
}

int log_configure(enum log_level usual, const char *path, struct error *err)
{
    static const struct word levels[] = {
        {"error", LOG_LEVEL_ERROR},
        {"critical", LOG_LEVEL_ERROR},
        {"warn", LOG_LEVEL_WARN},
        {"warning", LOG_LEVEL_WARN},
        {"info", LOG_LEVEL_INFO},
        {"debug", LOG_LEVEL_DEBUG},
        {0},
    };
    const char *wanted = variable_value("MSB_LOG_FILE");
    const char *level_name = variable_value("MSB_LOG_LEVEL") ? "MSB_LOG_LEVEL" : "MSB_LOG";
    int level = (int)usual;
    if (wanted)
        path = wanted;
    if (choose(level_name, levels, "error, warn, info or debug", &level, err) < 0 ||
        variable_flag("MSB_LOG_CONSOLE", &file.console, err) < 0 ||
        variable_number("MSB_LOG_MAX_SIZE", "bytes", 10u << 20, 1024, 1ull << 40, &file.size_max,
                        err) < 0 ||
        variable_number("MSB_LOG_BACKUP_COUNT", "files", 5, 0, 1000, &file.kept, err) < 0)
        return -1;
    if (path && use_file(path, err) < 0)
        return -1;
    log_set_level((enum log_level)level);
    return choose_format(path != NULL, err);
}
