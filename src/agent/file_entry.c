/* Telling what is there: records of entries and lists of folders. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/account.h"
#include "agent/file_work.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/json_text.h"
#include "base/mem.h"
#include "proto/wire.h"

#define SENT_AT (32u * 1024)
#define NAMES_KEPT 16

static struct buf records;

static int send_records(struct error *err)
{
    if (file_write_all(STDOUT_FILENO, buf_data(&records), buf_length(&records)) < 0)
        return error_errno(err, errno, "cannot pass the entries on");
    buf_consume(&records, buf_length(&records));
    return 0;
}

/* Entries of one folder mostly have one owner, so looking the name up each time would be a waste.
 */
static const char *user_name(uid_t uid)
{
    static struct {
        uid_t uid;
        char name[64];
    } kept[NAMES_KEPT];
    static unsigned count;
    for (unsigned i = 0; i < count && i < NAMES_KEPT; i++) {
        if (kept[i].uid == uid)
            return kept[i].name;
    }
    unsigned place = count++ % NAMES_KEPT;
    kept[place].uid = uid;
    account_name(uid, kept[place].name, sizeof kept[place].name);
    return kept[place].name;
}

static const char *type_name(mode_t mode)
{
    return S_ISREG(mode) ? "file" : S_ISDIR(mode) ? "folder" : S_ISLNK(mode) ? "link" : "other";
}

static void append_text(struct buf *out, const char *name, const char *text)
{
    buf_printf(out, "\"%s\":", name);
    json_text_append(out, text, strlen(text));
    buf_append_text(out, ",");
}

static void append_record(const char *path, const struct stat *status, const char *link)
{
    cleanup_buf struct buf text = {0};
    const char *slash = strrchr(path, '/');
    buf_append_text(&text, "{");
    append_text(&text, "name", slash && slash[1] ? slash + 1 : path);
    append_text(&text, "path", path);
    append_text(&text, "type", type_name(status->st_mode));
    append_text(&text, "user", user_name(status->st_uid));
    if (link)
        append_text(&text, "target", link);
    int64_t mtime_us = (int64_t)status->st_mtim.tv_sec * 1000000 + status->st_mtim.tv_nsec / 1000;
    buf_printf(&text, "\"size\":%lld,\"mode\":%u,\"uid\":%u,\"gid\":%u,\"mtime_us\":%lld}",
               (long long)status->st_size, status->st_mode & 07777, status->st_uid, status->st_gid,
               (long long)mtime_us);
    uint8_t length[4];
    wire_put32(length, (uint32_t)buf_length(&text));
    buf_append(&records, length, sizeof length);
    buf_append(&records, buf_data(&text), buf_length(&text));
}

/* False when it is not there, with errno. `name` is below `folder`, `path` what it is called. */
static bool describe(int folder, const char *name, const char *path, struct stat *status)
{
    char link[PATH_MAX];
    ssize_t length = -1;
    if (fstatat(folder, name, status, AT_SYMLINK_NOFOLLOW) < 0)
        return false;
    if (S_ISLNK(status->st_mode))
        length = readlinkat(folder, name, link, sizeof link - 1);
    link[length > 0 ? length : 0] = '\0';
    append_record(path, status, length >= 0 ? link : NULL);
    return true;
}

int file_work_stat(const struct file_request *request, struct error *err)
{
    struct stat status;
    if (!describe(AT_FDCWD, request->path, request->path, &status))
        return error_errno(err, errno, "cannot look at %.400s", request->path);
    return send_records(err);
}

struct listing {
    uint64_t left; /* entries that may still be told */
    bool cut;      /* there were more */
};

static int compare_names(const void *one, const void *other)
{
    return strcmp(*(char *const *)one, *(char *const *)other);
}

/* The sorted names in a folder, as many as may still be told. */
static char **read_names(DIR *folder, struct listing *listing)
{
    char **names = NULL;
    size_t count = 0;
    size_t capacity = 0;
    const struct dirent *entry;
    while ((entry = readdir(folder))) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (listing->left == 0) {
            listing->cut = true;
            break;
        }
        listing->left--;
        if (count + 1 >= capacity) {
            capacity = capacity ? capacity * 2 : 64;
            names = xrealloc(names, capacity * sizeof *names);
        }
        names[count++] = xstrdup(entry->d_name);
        names[count] = NULL;
    }
    if (count > 1)
        qsort(names, count, sizeof *names, compare_names);
    return names;
}

static int list_folder(int fd, const char *path, uint64_t depth, struct listing *listing,
                       struct error *err);

static int list_entry(int folder, const char *name, const char *path, uint64_t depth,
                      struct listing *listing, struct error *err)
{
    cleanup_free char *full =
        xasprintf("%s%s%s", path, path[strlen(path) - 1] == '/' ? "" : "/", name);
    struct stat status;
    /* What has just been removed or may not be entered is no reason to keep the rest back. */
    if (!describe(folder, name, full, &status))
        return 0;
    if (buf_length(&records) >= SENT_AT && send_records(err) < 0)
        return -1;
    if (!S_ISDIR(status.st_mode) || depth <= 1)
        return 0;
    int fd = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? 0 : list_folder(fd, full, depth - 1, listing, err);
}

/* Takes the descriptor over. */
static int list_folder(int fd, const char *path, uint64_t depth, struct listing *listing,
                       struct error *err)
{
    DIR *folder = fdopendir(fd);
    if (!folder) {
        error_errno(err, errno, "cannot list %.400s", path);
        fd_close(fd);
        return -1;
    }
    cleanup_strv char **names = read_names(folder, listing);
    int result = 0;
    for (char **name = names; result == 0 && name && *name; name++)
        result = list_entry(fd, *name, path, depth, listing, err);
    closedir(folder);
    return result;
}

int file_work_list(const struct file_request *request, struct error *err)
{
    struct listing listing = {.left = request->limit};
    int fd = open(request->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return error_errno(err, errno, "cannot list %.400s", request->path);
    if (request->depth > 0 && list_folder(fd, request->path, request->depth, &listing, err) < 0)
        return -1;
    if (send_records(err) < 0)
        return -1;
    if (!listing.cut)
        return 0;
    error_set(err, ERROR_LIMIT, "%.400s has more than %llu entries", request->path,
              (unsigned long long)request->limit);
    return error_hint(err, "list its folders one by one, or less deep");
}
