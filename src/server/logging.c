#include "server/logging.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json_text.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/variables.h"

/* A log is one for the process, as its level is. */
static struct logging {
    const char *file; /* NULL: none */
    bool is_set, console, structured;
    enum log_level level;
    uint64_t max_size, backups;
    int fd;
    uint64_t size;
} logging = {.fd = -1};

static int read_level(struct logging *to, struct error *err)
{
    static const struct {
        const char *name;
        enum log_level level;
    } levels[] = {{"DEBUG", LOG_LEVEL_DEBUG},
                  {"INFO", LOG_LEVEL_INFO},
                  {"WARNING", LOG_LEVEL_WARN},
                  {"ERROR", LOG_LEVEL_ERROR},
                  {"CRITICAL", LOG_LEVEL_ERROR}};
    const char *text = variable_value("MSB_LOG_LEVEL");
    to->level = LOG_LEVEL_INFO;
    for (size_t i = 0; text && i < sizeof levels / sizeof levels[0]; i++) {
        if (strcasecmp(text, levels[i].name) == 0) {
            to->level = levels[i].level;
            return 0;
        }
    }
    return text ? variable_wrong("MSB_LOG_LEVEL", "DEBUG, INFO, WARNING, ERROR or CRITICAL", err)
                : 0;
}

static int read_settings(struct logging *to, struct error *err)
{
    *to = (struct logging){.console = true, .structured = true, .fd = -1};
    to->file = variable_value("MSB_LOG_FILE");
    to->is_set = to->file || variable_value("MSB_LOG_LEVEL") || variable_value("MSB_LOG_CONSOLE") ||
                 variable_value("MSB_LOG_STRUCTURED");
    if (read_level(to, err) < 0 || variable_flag("MSB_LOG_CONSOLE", &to->console, err) < 0 ||
        variable_flag("MSB_LOG_STRUCTURED", &to->structured, err) < 0 ||
        variable_number("MSB_LOG_MAX_SIZE", "bytes", 10u << 20, 1024, 1ull << 40, &to->max_size,
                        err) < 0 ||
        variable_number("MSB_LOG_BACKUP_COUNT", "files", 5, 0, 1000, &to->backups, err) < 0)
        return -1;
    if (!to->file || to->file[0] == '/')
        return 0;
    return variable_wrong("MSB_LOG_FILE", "the absolute path of a file", err);
}

int logging_check(struct error *err)
{
    struct logging unused;
    return read_settings(&unused, err);
}

static int open_file(struct error *err)
{
    struct stat about;
    logging.fd = open(logging.file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (logging.fd < 0) {
        error_errno(err, errno, "cannot write the log %s", logging.file);
        return error_hint(err, "set MSB_LOG_FILE to a file in a folder that can be written to");
    }
    logging.size = fstat(logging.fd, &about) == 0 ? (uint64_t)about.st_size : 0;
    return 0;
}

/* FILE becomes FILE.1, that FILE.2, and so on; the last one goes. */
static void rotate(void)
{
    struct error ignored;
    fd_close(steal_fd(&logging.fd));
    for (uint64_t i = logging.backups; i > 0; i--) {
        cleanup_free char *to = xasprintf("%s.%llu", logging.file, (unsigned long long)i);
        cleanup_free char *from =
            i > 1 ? xasprintf("%s.%llu", logging.file, (unsigned long long)(i - 1))
                  : xstrdup(logging.file);
        rename(from, to);
    }
    if (logging.backups == 0)
        unlink(logging.file);
    open_file(&ignored);
}

static void format(struct buf *line, enum log_level level, const char *text)
{
    char when[64];
    struct tm parts;
    uint64_t now = clock_realtime_us();
    time_t seconds = (time_t)(now / 1000000);
    gmtime_r(&seconds, &parts);
    size_t used = strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%S", &parts);
    snprintf(when + used, sizeof when - used, ".%03uZ", (unsigned)(now / 1000 % 1000));
    if (!logging.structured) {
        buf_printf(line, "%s %s %s\n", when, log_level_name(level), text);
        return;
    }
    buf_printf(line, "{\"time\":\"%s\",\"level\":\"%s\",\"message\":", when, log_level_name(level));
    json_text_append(line, text, strlen(text));
    buf_append_text(line, "}\n");
}

static void sink(enum log_level level, const char *text)
{
    cleanup_buf struct buf line = {0};
    format(&line, level, text);
    size_t length = buf_length(&line);
    if (logging.console)
        file_write_all(STDERR_FILENO, buf_data(&line), length);
    if (logging.fd >= 0 && logging.size + length > logging.max_size && logging.size > 0)
        rotate();
    if (logging.fd >= 0 && file_write_all(logging.fd, buf_data(&line), length) == 0)
        logging.size += length;
}

int logging_open(struct error *err)
{
    if (read_settings(&logging, err) < 0)
        return -1;
    if (!logging.is_set)
        return 0;
    if (logging.file && open_file(err) < 0)
        return -1;
    log_set_level(logging.level);
    log_set_sink(sink);
    return 0;
}
