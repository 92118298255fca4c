#include "sandbox/output_log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "base/file.h"
#include "base/mem.h"

static int open_file(const char *path)
{
    return open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
}

int output_log_open(struct output_log *log, const char *folder, struct error *err)
{
    *log = (struct output_log){.path = xasprintf("%s/output.log", folder)};
    log->fd = open_file(log->path);
    return log->fd >= 0 ? 0 : error_errno(err, errno, "cannot create %s", log->path);
}

static void rotate(struct output_log *log)
{
    cleanup_free char *before = xasprintf("%s.1", log->path);
    fd_close(log->fd);
    rename(log->path, before);
    log->fd = open_file(log->path);
    log->size = 0;
}

void output_log_write(struct output_log *log, const void *bytes, size_t length)
{
    if (log->size + length > OUTPUT_LOG_PART)
        rotate(log);
    if (log->fd >= 0 && file_write_all(log->fd, bytes, length) == 0)
        log->size += length;
}

void output_log_close(struct output_log *log)
{
    fd_close(log->fd);
    free(log->path);
    *log = (struct output_log){.fd = -1};
}
