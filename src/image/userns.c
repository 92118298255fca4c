#include "image/userns.h"

#include <errno.h>
#include <linux/capability.h>
#include <spawn.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"

static const char *const prefix[] = {"unshare", "--user", "--map-root-user", "--map-auto",
                                     "--mount", "--pid",  "--fork",          "--kill-child"};

static char **with_prefix(char *const *argv)
{
    char **all = NULL;
    for (size_t i = 0; i < sizeof prefix / sizeof *prefix; i++)
        strv_append(&all, xstrdup(prefix[i]));
    for (; *argv; argv++)
        strv_append(&all, xstrdup(*argv));
    return all;
}

/* Root of a container may lack any. */
static bool has_capability(unsigned number)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {0};
    return syscall(SYS_capget, &header, data) == 0 && data[0].effective >> number & 1;
}

#define CONTAINER_HINT                                                                             \
    "in a container, bring images along: make container-image CONTAINER_IMAGES=…, or copy the "  \
    "folder images of another home"

int userns_check(struct error *err)
{
    cleanup_free char *mapper = process_find("newuidmap");
    if (geteuid() == 0 && !has_capability(CAP_SYS_CHROOT)) {
        error_set(err, ERROR_MISSING, "images cannot be unpacked here: root has no CAP_SYS_CHROOT");
        return error_hint(err, CONTAINER_HINT);
    }
    if (geteuid() == 0)
        return 0;
    if (!mapper) {
        error_set(err, ERROR_MISSING, "the program newuidmap is not installed");
        return error_hint(err, "apt-get install uidmap, or build the image as root");
    }
    char *argv[] = {"true", NULL};
    int result = userns_run(argv, (struct process_options){0}, err);
    if (result == 0 || err->code == ERROR_CANCELLED)
        return result;
    error_wrap(err, "cannot make a user namespace to build the image in");
    return error_hint(
        err, "give yourself subordinate ids (usermod --add-subuids 100000-165535 "
             "--add-subgids 100000-165535 NAME), or build the image as root; " CONTAINER_HINT);
}

int userns_run(char *const *argv, struct process_options options, struct error *err)
{
    if (geteuid() == 0) {
        options.private_mounts = has_capability(CAP_SYS_ADMIN);
        return process_run(argv, &options, err);
    }
    cleanup_strv char **all = with_prefix(argv);
    return process_run(all, &options, err);
}

/* In a process group of its own, so that a Ctrl-C on the terminal does not reach it. */
static void run_to_the_end(char *const *argv)
{
    cleanup_strv char **all = with_prefix(argv);
    cleanup_free char *program = process_find(all[0]);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    pid_t pid;
    if (program && posix_spawn(&pid, program, NULL, &attributes, all, environ) == 0) {
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {
        }
    }
    posix_spawnattr_destroy(&attributes);
}

void userns_remove(const char *path)
{
    struct error ignored;
    if (geteuid() == 0) {
        folder_remove(path, &ignored);
        return;
    }
    cleanup_free char *copy = xstrdup(path);
    char *argv[] = {"rm", "-rf", "--", copy, NULL};
    run_to_the_end(argv);
}

void userns_sweep(const char *tmp)
{
    /* The same locks as in home_workspace: the gate, then each folder that nobody holds. */
    static char script[] = "cd \"$1\" && exec 9>>lock && flock 9 && "
                           "for work in work-*; do flock -n \"$work\" rm -rf \"$work\"; done";
    if (geteuid() == 0 || !file_exists(tmp))
        return;
    cleanup_free char *copy = xstrdup(tmp);
    char *argv[] = {"sh", "-c", script, "sh", copy, NULL};
    run_to_the_end(argv);
}
