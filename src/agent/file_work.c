#include "agent/file_work.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "proto/protocol.h"

#define TEMPORARY ".msb-"
#define TEMPORARY_OVER TEMPORARY "over-"
#define TEMPORARY_NEW TEMPORARY "new-"

static char *volatile temporary;

static bool begins_with(const char *path, const char *beginning)
{
    const char *slash = strrchr(path, '/');
    return strncmp(slash ? slash + 1 : path, beginning, strlen(beginning)) == 0;
}

bool file_is_temporary(const char *path)
{
    return begins_with(path, TEMPORARY);
}

bool file_temporary_replaces(const char *path)
{
    return begins_with(path, TEMPORARY_OVER);
}

static void on_terminate(int signal)
{
    (void)signal;
    if (temporary)
        unlink(temporary);
    _exit(1);
}

static void drop_temporary(void)
{
    if (temporary)
        unlink(temporary);
    free(temporary);
    temporary = NULL;
}

/* The signal waits while the name is not yet the name of a file of ours, or no longer. */
static void hold_terminate(bool held)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigprocmask(held ? SIG_BLOCK : SIG_UNBLOCK, &set, NULL);
}

int file_work_begin(const char *path, struct error *err)
{
    cleanup_free char *copy = xstrdup(path);
    hold_terminate(true);
    const char *beginning = access(path, F_OK) == 0 ? TEMPORARY_OVER : TEMPORARY_NEW;
    char *name = xasprintf("%s/%sXXXXXX", dirname(copy), beginning);
    int fd = mkostemp(name, O_CLOEXEC);
    if (fd < 0) {
        error_errno(err, errno, "cannot create %.400s", path);
        free(name);
    } else {
        temporary = name;
    }
    hold_terminate(false);
    return fd;
}

int file_work_commit(const char *path, struct error *err)
{
    int result = 0;
    hold_terminate(true);
    if (rename(temporary, path) < 0) {
        result = error_errno(err, errno, "cannot write %.400s", path);
        unlink(temporary);
    }
    free(temporary);
    temporary = NULL;
    hold_terminate(false);
    return result;
}

/* Part by part, none of which may be a link or lead up: the same on every kernel and behind every
 * filter of system calls, which openat2 is not. */
static int open_beneath(const char *path, int flags)
{
    int at = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    for (const char *part = path; at >= 0 && *part; part += strspn(part, "/")) {
        size_t length = strcspn(part, "/");
        bool is_last = part[length + strspn(part + length, "/")] == '\0';
        cleanup_free char *name = xstrndup(part, length);
        bool leads_up = length == 0 || strcmp(name, "..") == 0;
        int next = leads_up  ? (errno = ENOENT, -1)
                   : is_last ? openat(at, name, flags | O_NOFOLLOW)
                             : openat(at, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        fd_close(at);
        at = next;
        part += length;
    }
    if (at < 0 && (errno == ELOOP || errno == ENOTDIR))
        errno = ENOENT;
    return at;
}

int file_work_open(const struct file_request *request, int flags)
{
    return request->beneath ? open_beneath(request->path, flags) : open(request->path, flags);
}

int file_work_make_parents(const struct file_request *request, const char *path, struct error *err)
{
    if (!request->parents)
        return 0;
    cleanup_free char *copy = xstrdup(path);
    return folder_make(dirname(copy), 0755, err);
}

static int make_folder(const struct file_request *request, struct error *err)
{
    const char *path = request->path;
    int result = file_work_make_parents(request, path, err);
    if (result < 0)
        return result;
    mode_t mode = request->has_mode ? request->mode : 0755;
    if (mkdir(path, mode) == 0) {
        if (request->has_mode && chmod(path, mode) < 0)
            return error_errno(err, errno, "cannot set the mode of %.400s", path);
        return 0;
    }
    struct stat status;
    int reason = errno;
    if (reason == EEXIST && request->parents && stat(path, &status) == 0 && S_ISDIR(status.st_mode))
        return 0;
    return error_errno(err, reason, "cannot make the folder %.400s", path);
}

static bool is_root_folder(const struct stat *status)
{
    struct stat root;
    return stat("/", &root) == 0 && root.st_dev == status->st_dev && root.st_ino == status->st_ino;
}

static int remove_path(const struct file_request *request, struct error *err)
{
    const char *path = request->path;
    struct stat status;
    if (lstat(path, &status) < 0)
        return error_errno(err, errno, "cannot remove %.400s", path);
    if (!S_ISDIR(status.st_mode))
        return unlink(path) == 0 ? 0 : error_errno(err, errno, "cannot remove %.400s", path);
    if (is_root_folder(&status))
        return error_set(err, ERROR_INVALID, "the root folder cannot be removed");
    if (request->recursive)
        return folder_remove(path, err);
    if (rmdir(path) == 0)
        return 0;
    int reason = errno;
    error_errno(err, reason, "cannot remove the folder %.400s", path);
    return reason == ENOTEMPTY ? error_hint(err, "ask for it with everything in it") : -1;
}

static int rename_path(const struct file_request *request, struct error *err)
{
    int result = file_work_make_parents(request, request->target, err);
    if (result < 0)
        return result;
    if (rename(request->path, request->target) == 0)
        return 0;
    int reason = errno;
    error_errno(err, reason, "cannot rename %.300s to %.300s", request->path, request->target);
    return reason == EXDEV ? error_hint(err, "copy it there and remove it here instead") : -1;
}

static int dispatch(const struct file_request *request, struct error *err)
{
    static int (*const works[])(const struct file_request *, struct error *) = {
        [OP_FILE_READ] = file_work_read,   [OP_FILE_WRITE] = file_work_write,
        [OP_FILE_STAT] = file_work_stat,   [OP_FILE_LIST] = file_work_list,
        [OP_FILE_MAKE] = make_folder,      [OP_FILE_REMOVE] = remove_path,
        [OP_FILE_RENAME] = rename_path,    [OP_FILE_COPY] = file_work_copy,
        [OP_FILE_WATCH] = file_work_watch, [OP_FILE_CHANGES] = file_work_changes,
    };
    return works[request->operation](request, err);
}

int file_work_run(const void *request)
{
    struct error err = {0};
    signal(SIGTERM, on_terminate);
    if (dispatch(request, &err) == 0)
        return 0;
    drop_temporary();
    /* Fits a pipe as a whole, so it does not block. */
    return file_write_all(FILE_WORK_STATUS, &err, sizeof err) == 0 ? 1 : 2;
}
