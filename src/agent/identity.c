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

static char *image_hosts; /* what /etc/hosts was before us */

static int write_file(const char *name, const char *text, struct error *err)
{
    cleanup_free char *path = xasprintf(FOLDER "/%s", name);
    cleanup_fd int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0 || file_write_all(fd, text, strlen(text)) < 0)
        return error_errno(err, errno, "cannot write %s", path);
    return 0;
}

/* An image may have put anything at this path: it is replaced, not followed. */
static int link_file(const char *name, struct error *err)
{
    cleanup_free char *path = xasprintf("/etc/%s", name);
    cleanup_free char *target = xasprintf(FOLDER "/%s", name);
    if ((unlink(path) < 0 && errno != ENOENT) || symlink(target, path) < 0)
        return error_errno(err, errno, "cannot make %s", path);
    return 0;
}

static void remember_hosts(void)
{
    struct error ignored;
    struct stat status;
    cleanup_buf struct buf hosts = {0};
    if (lstat("/etc/hosts", &status) == 0 && S_ISREG(status.st_mode))
        file_read("/etc/hosts", HOSTS_MAX, &hosts, &ignored);
    if (buf_length(&hosts) && buf_data(&hosts)[buf_length(&hosts) - 1] != '\n')
        buf_append_text(&hosts, "\n");
    if (!strstr(buf_text(&hosts), "localhost"))
        buf_append_text(&hosts, "127.0.0.1 localhost\n::1 localhost\n");
    image_hosts = xstrdup(buf_text(&hosts));
}

static int set_up(struct error *err)
{
    if (image_hosts)
        return 0;
    int result = folder_make(FOLDER, 0755, err);
    if (result == 0)
        result = folder_make("/etc", 0755, err);
    if (result < 0)
        return result;
    remember_hosts();
    result = link_file("hosts", err);
    if (result == 0)
        result = link_file("hostname", err);
    return result < 0 ? result : link_file("machine-id", err);
}

/* The id shows only what its bytes are mixed into, not the entropy the kernel was given. */
static void format_machine_id(const uint8_t *entropy, char text[34])
{
    uint64_t hash[2] = {0xcbf29ce484222325ULL, 0x84222325cbf29ce4ULL};
    for (int i = 0; i < 32; i++) {
        hash[0] = (hash[0] ^ entropy[i]) * 0x100000001b3ULL;
        hash[1] = (hash[1] ^ entropy[31 - i]) * 0x100000001b3ULL;
    }
    snprintf(text, 34, "%016llx%016llx\n", (unsigned long long)hash[0],
             (unsigned long long)hash[1]);
}

int identity_set(const char *name, const uint8_t *entropy, struct error *err)
{
    char id[34];
    format_machine_id(entropy, id);
    int result = set_up(err);
    if (result == 0)
        result = write_file("machine-id", id, err);
    if (result < 0 || !name)
        return result;
    if (sethostname(name, strlen(name)) < 0)
        return error_errno(err, errno, "cannot set the host name %.64s", name);
    cleanup_free char *line = xasprintf("%s\n", name);
    cleanup_free char *hosts = xasprintf("%s127.0.1.1 %s\n", image_hosts, name);
    result = write_file("hostname", line, err);
    return result < 0 ? result : write_file("hosts", hosts, err);
}
