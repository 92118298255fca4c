#include "agent/file_record.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "agent/account.h"
#include "base/file.h"
#include "base/json_text.h"
#include "proto/wire.h"

#define SENT_AT (32u * 1024)
#define NAMES_KEPT 16

static struct buf waiting;

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

static void begin_member(struct buf *record, const char *name)
{
    buf_printf(record, "%s\"%s\":", buf_length(record) ? "," : "{", name);
}

void file_record_text(struct buf *record, const char *name, const char *text)
{
    begin_member(record, name);
    json_text_append(record, text, strlen(text));
}

static void add_number(struct buf *record, const char *name, long long number)
{
    begin_member(record, name);
    buf_printf(record, "%lld", number);
}

void file_record_path(struct buf *record, const char *path, mode_t mode)
{
    const char *slash = strrchr(path, '/');
    file_record_text(record, "name", slash && slash[1] ? slash + 1 : path);
    file_record_text(record, "path", path);
    file_record_text(record, "type", type_name(mode));
}

void file_record_entry(struct buf *record, const struct file_entry *entry)
{
    const struct stat *status = &entry->status;
    char link[PATH_MAX];
    ssize_t length = -1;
    file_record_path(record, entry->path, status->st_mode);
    file_record_text(record, "user", user_name(status->st_uid));
    if (S_ISLNK(status->st_mode))
        length = readlinkat(entry->folder, entry->name, link, sizeof link - 1);
    if (length >= 0) {
        link[length] = '\0';
        file_record_text(record, "target", link);
    }
    add_number(record, "size", status->st_size);
    add_number(record, "mode", status->st_mode & 07777);
    add_number(record, "uid", status->st_uid);
    add_number(record, "gid", status->st_gid);
    add_number(record, "mtime_us",
               (long long)status->st_mtim.tv_sec * 1000000 + status->st_mtim.tv_nsec / 1000);
}

int file_record_add(struct buf *record, struct error *err)
{
    uint8_t length[4];
    buf_append_text(record, "}");
    wire_put32(length, (uint32_t)buf_length(record));
    buf_append(&waiting, length, sizeof length);
    buf_append(&waiting, buf_data(record), buf_length(record));
    return buf_length(&waiting) >= SENT_AT ? file_record_flush(err) : 0;
}

int file_record_flush(struct error *err)
{
    if (file_write_all(STDOUT_FILENO, buf_data(&waiting), buf_length(&waiting)) < 0)
        return error_errno(err, errno, "cannot pass the records on");
    buf_consume(&waiting, buf_length(&waiting));
    return 0;
}
