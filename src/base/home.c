#include "base/home.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"

static char *find_home(void)
{
    const char *chosen = getenv("MSB_HOME");
    if (chosen && chosen[0] == '/')
        return xstrdup(chosen);
    if (chosen && chosen[0]) {
        cleanup_free char *here = getcwd(NULL, 0);
        return xasprintf("%s/%s", here ? here : "", chosen);
    }
    const char *user_home = getenv("HOME");
    if (!user_home || user_home[0] != '/') {
        const struct passwd *entry = getpwuid(getuid());
        user_home = entry ? entry->pw_dir : "/root";
    }
    return xasprintf("%s/.microsandbox", user_home);
}

const char *home_folder(void)
{
    static char *folder;
    if (!folder)
        folder = find_home();
    return folder;
}

char *home_path(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    cleanup_free char *below = xvasprintf(format, args);
    va_end(args);
    return xasprintf("%s/%s", home_folder(), below);
}

/* An entry whose lock can be taken has no maker any more. */
static void sweep(const char *tmp)
{
    DIR *folder = opendir(tmp);
    const struct dirent *entry;
    while (folder && (entry = readdir(folder))) {
        if (strncmp(entry->d_name, "work-", 5) != 0)
            continue;
        struct error ignored;
        cleanup_free char *path = xasprintf("%s/%s", tmp, entry->d_name);
        cleanup_fd int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
            folder_remove(path, &ignored);
    }
    if (folder)
        closedir(folder);
}

int home_workspace(char **path, struct error *err)
{
    cleanup_free char *tmp = home_path("tmp");
    int result = folder_make(tmp, 0700, err);
    if (result < 0)
        return error_hint(err, "set MSB_HOME to a folder you may write to");
    /* Held while a new folder exists but is not locked yet, so that no sweep takes it. */
    cleanup_free char *gate_path = xasprintf("%s/lock", tmp);
    cleanup_fd int gate = file_lock(gate_path, true, err);
    if (gate < 0)
        return gate;
    sweep(tmp);
    cleanup_free char *made = xasprintf("%s/work-XXXXXX", tmp);
    if (!mkdtemp(made))
        return error_errno(err, errno, "cannot create a folder in %s", tmp);
    int lock = open(made, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lock < 0 || flock(lock, LOCK_EX | LOCK_NB) < 0)
        return error_errno(err, errno, "cannot lock %s", made);
    *path = steal_pointer(&made);
    return lock;
}

void home_workspace_end(const char *path, int lock)
{
    struct error ignored;
    folder_remove(path, &ignored);
    fd_close(lock);
}
