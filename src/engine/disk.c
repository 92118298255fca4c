#include "engine/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/process.h"

/* Inode tables are zero already, since the file is. */
int disk_make(const char *path, unsigned size_mb, unsigned files, bool journal, struct error *err)
{
    cleanup_fd int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, (off_t)size_mb << 20) < 0)
        return error_errno(err, errno, "cannot create %s", path);
    cleanup_free char *count = files ? xasprintf("-N%u", files) : xstrdup("-q");
    cleanup_free char *target = xstrdup(path);
    char *argv[] = {"mkfs.ext4", "-q",
                    "-F",        "-m0",
                    "-O",        journal ? "^resize_inode" : "^has_journal,^resize_inode",
                    "-E",        "lazy_itable_init=1,lazy_journal_init=1,nodiscard,root_owner=0:0",
                    count,       target,
                    NULL};
    if (process_run(argv, &(struct process_options){0}, err) < 0)
        return error_hint(err, "apt-get install e2fsprogs");
    return 0;
}
