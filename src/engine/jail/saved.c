#include "engine/jail/saved.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/process.h"

#define ARCHIVE "disk.tar"

/* Its marks for what hides files of the image are attributes, and devices that anybody may make. */
#define ALL_ATTRIBUTES "--xattrs", "--xattrs-include=*", "--acls"

static int run(char *const *argv, const struct process_options *options, struct error *err)
{
    int result = process_run(argv, options, err);
    if (result < 0 && err->code == ERROR_MISSING)
        error_hint(err, "apt-get install tar util-linux");
    return result;
}

int saved_pack(pid_t process, int disk, const char *folder, struct error *err)
{
    cleanup_free char *path = xasprintf("%s/" ARCHIVE, folder);
    cleanup_fd int archive = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (archive < 0)
        return error_errno(err, errno, "cannot create %s", path);
    cleanup_free char *user = xasprintf("--user=/proc/%d/ns/user", (int)process);
    cleanup_free char *upper = xasprintf("/proc/%d/fd/%d/upper", (int)getpid(), disk);
    char *argv[] = {
        "nsenter",         user,       "--", "tar", "--create", "--sparse", ALL_ATTRIBUTES,
        "--numeric-owner", "--file=-", ".",  NULL};
    const struct process_options options = {.folder = upper, .stdout_fd = archive};
    int result = run(argv, &options, err);
    return result < 0 ? error_wrap(err, "cannot save the files of a jail") : 0;
}

int saved_open(const char *folder, struct error *err)
{
    cleanup_free char *path = xasprintf("%s/" ARCHIVE, folder);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd >= 0 ? fd : error_errno(err, errno, "cannot open %s", path);
}

int saved_unpack(int archive, int disk, struct error *err)
{
    char *argv[] = {"tar",          "--extract",       "--same-owner", "--same-permissions",
                    ALL_ATTRIBUTES, "--numeric-owner", "--file=-",     NULL};
    cleanup_fd int upper = openat(disk, "upper", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (upper < 0 || fchdir(upper) < 0)
        return error_errno(err, errno, "cannot enter the jail's disk");
    const struct process_options options = {.stdin_fd = archive};
    int result = run(argv, &options, err);
    return result < 0 ? error_wrap(err, "cannot put the files of a jail in place") : 0;
}
