/*
 * The files live in memory, and /etc has links to them: every copy of a machine rewrites them first
 * of all, which takes far less than a change to the disk does.
 */
#include "agent/identity.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"

#define FOLDER "/run/msb/identity"
#define HOSTS_MAX (1024u * 1024)

/* Kept open, so that a change is one write. */
struct file {
    const char *name;
    int fd;
    size_t length;
};

static struct file machine_id = {"machine-id", -1, 0};
static struct file hostname = {"hostname", -1, 0};
static struct file hosts = {"hosts", -1, 0};
static char *image_hosts; /* what /etc/hosts was before us */

static int write_file(struct file *file, const char *text, struct error *err)
{
    size_t length = strlen(text);
    if (pwrite(file->fd, text, length, 0) != (ssize_t)length ||
        (length < file->length && ftruncate(file->fd, (off_t)length) < 0))
        return error_errno(err, errno, "cannot write " FOLDER "/%s", file->name);
    file->length = length;
    return 0;
}

/* An image may have put anything at this path: it is replaced, not followed. */
static int make_file(struct file *file, struct error *err)
{
    cleanup_free char *path = xasprintf(FOLDER "/%s", file->name);
    cleanup_free char *link = xasprintf("/etc/%s", file->name);
    if (file->fd < 0)
        file->fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (file->fd < 0 || (unlink(link) < 0 && errno != ENOENT) || symlink(path, link) < 0)
        return error_errno(err, errno, "cannot make %s", link);
    return 0;
}

static void remember_hosts(void)
{
    struct error ignored;
    struct stat status;
    cleanup_buf struct buf lines = {0};
    if (lstat("/etc/hosts", &status) == 0 && S_ISREG(status.st_mode))
        file_read("/etc/hosts", HOSTS_MAX, &lines, &ignored);
    if (buf_length(&lines) && buf_data(&lines)[buf_length(&lines) - 1] != '\n')
        buf_append_text(&lines, "\n");
    if (!strstr(buf_text(&lines), "localhost"))
        buf_append_text(&lines, "127.0.0.1 localhost\n::1 localhost\n");
    image_hosts = xstrdup(buf_text(&lines));
}

/* A link that leads to no folder gives way, and so does a file. */
static int make_etc(struct error *err)
{
    struct stat status;
    if (stat("/etc", &status) == 0 && S_ISDIR(status.st_mode))
        return 0;
    unlink("/etc");
    return folder_make("/etc", 0755, err);
}

int identity_link(struct error *err)
{
    int result = make_etc(err);
    if (result == 0)
        result = make_file(&hosts, err);
    if (result == 0)
        result = make_file(&hostname, err);
    return result < 0 ? result : make_file(&machine_id, err);
}

static int set_up(struct error *err)
{
    if (image_hosts)
        return 0;
    int result = folder_make(FOLDER, 0755, err);
    if (result < 0)
        return result;
    remember_hosts();
    return identity_link(err);
}

/* The id shows only what its bytes are mixed into, not the entropy the kernel was given. */
static void append_machine_id(struct buf *out, const uint8_t *entropy)
{
    uint64_t hash[2] = {0xcbf29ce484222325ULL, 0x84222325cbf29ce4ULL};
    for (int i = 0; i < 32; i++) {
        hash[0] = (hash[0] ^ entropy[i]) * 0x100000001b3ULL;
        hash[1] = (hash[1] ^ entropy[31 - i]) * 0x100000001b3ULL;
    }
    buf_append_hex(out, hash, sizeof hash);
    buf_append_text(out, "\n");
}

/* Without printf, as long as it is on the path of every start. */
static int name_machine(const char *name, char *const *others, struct error *err)
{
    if (sethostname(name, strlen(name)) < 0)
        return error_errno(err, errno, "cannot set the host name %.64s", name);
    cleanup_buf struct buf line = {0}, lines = {0};
    buf_append_text(&line, name);
    buf_append_text(&line, "\n");
    buf_append_text(&lines, image_hosts);
    buf_append_text(&lines, "127.0.1.1 ");
    buf_append_text(&lines, buf_text(&line));
    for (; others && *others; others++)
        buf_printf(&lines, "%s\n", *others);
    int result = write_file(&hostname, buf_text(&line), err);
    return result < 0 ? result : write_file(&hosts, buf_text(&lines), err);
}

int identity_set(const char *name, char *const *others, const uint8_t *entropy, struct error *err)
{
    cleanup_buf struct buf id = {0};
    append_machine_id(&id, entropy);
    int result = set_up(err);
    if (result == 0)
        result = write_file(&machine_id, buf_text(&id), err);
    return result == 0 && name ? name_machine(name, others, err) : result;
}
