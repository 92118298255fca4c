#include "image/oci/layer.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json_text.h"
#include "base/mem.h"

#define CHUNK ((size_t)1 << 20)
#define REPAIR_HINT "whoever publishes the image has to repair it"
#define HIDES ".wh."
#define HIDES_ALL ".wh..wh..opq"
#define HIDES_OTHER ".wh..wh."
#define ATTRIBUTES_MAX 64
#define ATTRIBUTE_BYTES_MAX 65536
#define FOLDER_BYTES_MAX ((size_t)64 << 20)

/* A folder's time is set when nothing is put into it any more. */
struct folder_time {
    char *path;
    struct timespec time;
};

struct application {
    struct tree *tree;
    struct layer_budget *budget;
    struct archive *archive;
    struct archive_entry *entry;
    struct folder_time *folders;
    size_t folder_count, folder_capacity, folder_bytes;
};

static int broken(struct application *work, struct error *err)
{
    const char *reason = archive_error_string(work->archive);
    error_set(err, ERROR_PROTOCOL, "a layer is broken: %.300s", reason ? reason : "unknown format");
    json_text_clean(err->message);
    return error_hint(err, REPAIR_HINT);
}

static struct timespec time_of(struct archive_entry *entry)
{
    return (struct timespec){.tv_sec = archive_entry_mtime(entry),
                             .tv_nsec = archive_entry_mtime_nsec(entry)};
}

/* ---- what a file has beside its contents --------------------------------------------------- */

/* Only what programs in the image see: others would speak to the host's kernel. */
static bool is_wanted(const char *attribute)
{
    return (strncmp(attribute, "user.", 5) == 0 &&
            strncmp(attribute, "user.overlay.", strlen("user.overlay.")) != 0) ||
           strcmp(attribute, "security.capability") == 0;
}

static void set_attributes(struct application *work, int fd)
{
    const char *name;
    const void *value;
    size_t length;
    int count = 0;
    if (archive_entry_xattr_reset(work->entry) == 0)
        return;
    while (archive_entry_xattr_next(work->entry, &name, &value, &length) == ARCHIVE_OK) {
        /* A file system may have no room or no support for them; the file itself is there. */
        if (is_wanted(name) && length <= ATTRIBUTE_BYTES_MAX && ++count <= ATTRIBUTES_MAX)
            (void)!fsetxattr(fd, name, value, length, 0);
    }
}

static int set_owner(struct application *work, int folder, const char *name, struct error *err)
{
    int64_t user = archive_entry_uid(work->entry), group = archive_entry_gid(work->entry);
    if (user < 0 || group < 0 || user >= UINT32_MAX || group >= UINT32_MAX)
        return error_set(err, ERROR_INVALID, "a file in it has an owner that cannot be");
    if (fchownat(folder, name, (uid_t)user, (gid_t)group, AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) == 0)
        return 0;
    int reason = errno;
    error_errno(err, reason, "cannot give a file to user %lld, group %lld", (long long)user,
                (long long)group);
    if (reason == EINVAL)
        return error_hint(err, "your subordinate ids (/etc/subuid, /etc/subgid) do not reach so "
                               "far; add more, or pull as root");
    return -1;
}

/* The mode comes after the owner: a change of owner clears the setuid bit. */
static int set_all(struct application *work, int fd, struct error *err)
{
    struct timespec times[] = {{.tv_nsec = UTIME_OMIT}, time_of(work->entry)};
    int result = set_owner(work, fd, "", err);
    if (result < 0)
        return result;
    if (fchmod(fd, archive_entry_perm(work->entry) & 07777) < 0)
        return error_errno(err, errno, "cannot set the mode of a file");
    set_attributes(work, fd);
    futimens(fd, times);
    return 0;
}

/* ---- kinds of entries ---------------------------------------------------------------------- */

/* An archive that only wants our memory gets no more; its folders have other times then. */
static void note_folder(struct application *work, const char *path)
{
    work->folder_bytes += strlen(path);
    if (work->folder_bytes > FOLDER_BYTES_MAX)
        return;
    if (work->folder_count == work->folder_capacity) {
        work->folder_capacity = work->folder_capacity ? work->folder_capacity * 2 : 64;
        work->folders = xrealloc(work->folders, work->folder_capacity * sizeof *work->folders);
    }
    work->folders[work->folder_count++] =
        (struct folder_time){.path = xstrdup(path), .time = time_of(work->entry)};
}

static int put_folder(struct application *work, const char *path, const char *name,
                      struct error *err)
{
    struct tree *tree = work->tree;
    struct stat status;
    const char *at = name[0] ? name : ".";
    if (name[0] && (fstatat(tree->parent, name, &status, AT_SYMLINK_NOFOLLOW) < 0 ||
                    !S_ISDIR(status.st_mode))) {
        int result = tree_remove(tree, name, err);
        if (result < 0)
            return result;
        if (mkdirat(tree->parent, name, 0700) < 0)
            return error_errno(err, errno, "cannot make folder %.300s", path);
    }
    cleanup_fd int fd = openat(tree->parent, at, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return error_errno(err, errno, "cannot open folder %.300s", path);
    note_folder(work, path[0] ? path : ".");
    return set_all(work, fd, err);
}

static int write_contents(struct application *work, int fd, struct error *err)
{
    const void *bytes;
    size_t length;
    la_int64_t offset, end = 0;
    int result;
    while ((result = archive_read_data_block(work->archive, &bytes, &length, &offset)) ==
           ARCHIVE_OK) {
        if (offset != end && lseek(fd, offset, SEEK_SET) < 0)
            return error_errno(err, errno, "cannot write a file");
        if (file_write_all(fd, bytes, length) < 0)
            return error_errno(err, errno, "cannot write a file");
        end = offset + (la_int64_t)length;
    }
    if (result != ARCHIVE_EOF)
        return broken(work, err);
    if (archive_entry_size(work->entry) > end && ftruncate(fd, archive_entry_size(work->entry)) < 0)
        return error_errno(err, errno, "cannot write a file");
    return 0;
}

static int put_file(struct application *work, const char *path, const char *name, struct error *err)
{
    struct tree *tree = work->tree;
    la_int64_t size = archive_entry_size(work->entry);
    if (size < 0 || (uint64_t)size > work->budget->bytes)
        return error_set(err, ERROR_LIMIT, "it is larger than an image may be");
    work->budget->bytes -= (uint64_t)size;
    int result = tree_remove(tree, name, err);
    if (result < 0)
        return result;
    cleanup_fd int fd =
        openat(tree->parent, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return error_errno(err, errno, "cannot make file %.300s", path);
    result = write_contents(work, fd, err);
    return result < 0 ? error_wrap(err, "%.300s", path) : set_all(work, fd, err);
}

static int put_link(struct application *work, const char *path, const char *name, struct error *err)
{
    struct tree *tree = work->tree;
    const char *target = archive_entry_symlink(work->entry);
    struct timespec times[] = {{.tv_nsec = UTIME_OMIT}, time_of(work->entry)};
    int result = tree_remove(tree, name, err);
    if (result < 0)
        return result;
    if (!target || symlinkat(target, tree->parent, name) < 0)
        return error_errno(err, target ? errno : EINVAL, "cannot make link %.300s", path);
    utimensat(tree->parent, name, times, AT_SYMLINK_NOFOLLOW);
    return set_owner(work, tree->parent, name, err);
}

static int put_pipe(struct application *work, const char *path, const char *name, struct error *err)
{
    struct tree *tree = work->tree;
    int result = tree_remove(tree, name, err);
    if (result < 0)
        return result;
    if (mkfifoat(tree->parent, name, archive_entry_perm(work->entry) & 0777) < 0)
        return error_errno(err, errno, "cannot make pipe %.300s", path);
    return set_owner(work, tree->parent, name, err);
}

/* The folder of the target, opened as every other path: it cannot be outside of the root. */
static int put_hard_link(struct application *work, const char *path, const char *name,
                         const char *target, struct error *err)
{
    struct tree *tree = work->tree;
    cleanup_free char *copy = xstrdup(target);
    struct tree place;
    tree_open(&place, tree->root);
    const char *last = tree_enter(&place, copy, err);
    int result = last ? 0 : -1;
    struct stat from, to;
    bool there = last && *last && fstatat(place.parent, last, &from, AT_SYMLINK_NOFOLLOW) == 0;
    bool same = there && fstatat(tree->parent, name, &to, AT_SYMLINK_NOFOLLOW) == 0 &&
                from.st_dev == to.st_dev && from.st_ino == to.st_ino;
    if (result == 0 && (!there || S_ISDIR(from.st_mode)))
        result = error_set(err, ERROR_INVALID, "%.200s is a link to %.200s, which is not there",
                           path, target);
    if (result == 0 && !same)
        result = tree_remove(tree, name, err);
    if (result == 0 && !same && linkat(place.parent, last, tree->parent, name, 0) < 0)
        result = error_errno(err, errno, "cannot make link %.300s", path);
    tree_close(&place);
    return result;
}

/* ---- entries ------------------------------------------------------------------------------- */

static int hide(struct application *work, const char *name, struct error *err)
{
    if (strcmp(name, HIDES_ALL) == 0)
        return tree_hide_all(work->tree, err);
    if (strncmp(name, HIDES_OTHER, strlen(HIDES_OTHER)) == 0)
        return 0;
    const char *hidden = name + strlen(HIDES);
    if (!*hidden || strcmp(hidden, ".") == 0 || strcmp(hidden, "..") == 0)
        return error_set(err, ERROR_INVALID, "it hides a file that has no name");
    return tree_hide(work->tree, hidden, err);
}

static int put_entry(struct application *work, const char *path, const char *name,
                     struct error *err)
{
    const char *target = archive_entry_hardlink(work->entry);
    mode_t type = archive_entry_filetype(work->entry);
    if (!name[0] && (target || type != AE_IFDIR))
        return error_set(err, ERROR_INVALID, "its root is no folder");
    if (target)
        return put_hard_link(work, path, name, target, err);
    switch (type) {
    case AE_IFDIR:
        return put_folder(work, path, name, err);
    case AE_IFREG:
        return put_file(work, path, name, err);
    case AE_IFLNK:
        return put_link(work, path, name, err);
    case AE_IFIFO:
        return put_pipe(work, path, name, err);
    default:
        return tree_remove(work->tree, name, err);
    }
}

static int take_entry(struct application *work, struct error *err)
{
    const char *given = archive_entry_pathname(work->entry);
    if (!given)
        return error_set(err, ERROR_INVALID, "a file in it has a name that cannot be read");
    if (work->budget->entries-- == 0)
        return error_set(err, ERROR_LIMIT, "it has more files than an image may have");
    cleanup_free char *path = xstrdup(given);
    cleanup_free char *parts = xstrdup(given);
    const char *name = tree_enter(work->tree, parts, err);
    if (!name)
        return -1;
    if (strncmp(name, HIDES, strlen(HIDES)) == 0)
        return hide(work, name, err);
    int result = put_entry(work, path, name, err);
    if (result == 0 && name[0])
        tree_mark(work->tree, name);
    return result;
}

static int take_entries(struct application *work, struct error *err)
{
    for (;;) {
        int result = archive_read_next_header(work->archive, &work->entry);
        if (result == ARCHIVE_EOF)
            return 0;
        if (result != ARCHIVE_OK && result != ARCHIVE_WARN)
            return broken(work, err);
        if (take_entry(work, err) < 0) {
            json_text_clean(err->message);
            return err->code == ERROR_INVALID ? error_hint(err, REPAIR_HINT) : -1;
        }
    }
}

static void set_folder_times(struct application *work)
{
    for (size_t i = 0; i < work->folder_count; i++) {
        struct timespec times[] = {{.tv_nsec = UTIME_OMIT}, work->folders[i].time};
        cleanup_fd int fd =
            tree_look(work->tree, work->folders[i].path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
        if (fd >= 0)
            futimens(fd, times);
        free(work->folders[i].path);
    }
    free(work->folders);
}

int layer_apply(struct tree *tree, int archive, struct layer_budget *budget, struct error *err)
{
    struct application work = {.tree = tree, .budget = budget, .archive = archive_read_new()};
    if (!work.archive)
        return error_set(err, ERROR_IO, "libarchive does not start");
    archive_read_support_filter_gzip(work.archive);
    archive_read_support_filter_zstd(work.archive);
    archive_read_support_format_tar(work.archive);
    archive_read_support_format_empty(work.archive);
    int result = archive_read_open_fd(work.archive, archive, CHUNK) == ARCHIVE_OK
                     ? take_entries(&work, err)
                     : broken(&work, err);
    archive_read_free(work.archive);
    set_folder_times(&work);
    tree_forget_marks(tree);
    return result;
}
