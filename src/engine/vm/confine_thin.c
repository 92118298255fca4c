#include "engine/vm/confine_thin.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "engine/landlock.h"
#include "engine/vm/confine_root.h"

#define LOADER "/lib64/ld-linux-x86-64.so.2"
#define PLACES 32
/* In the folder of the confinement: what the machine finds on its device for shared folders when
 * nothing is shared. */
#define NOTHING "nothing"

/* ---- outside ----------------------------------------------------------------------------- */

/* A comma ends a value on QEMU's command line, unless there are two. */
static char *double_commas(const char *text)
{
    cleanup_buf struct buf out = {0};
    for (; *text; text++) {
        buf_append(&out, text, 1);
        if (*text == ',')
            buf_append(&out, text, 1);
    }
    return xstrdup(buf_text(&out));
}

/* Without mounts the one folder is exported itself, not a tree that has it in it. */
static char **change_exported(char *const *argv, const char *folder, bool read_only)
{
    static const char exported[] = ",path=" CONFINE_VOLUMES ",";
    cleanup_free char *name = double_commas(folder);
    char **changed = NULL;
    for (; *argv; argv++) {
        const char *at = strstr(*argv, exported);
        strv_append(&changed,
                    !at ? xstrdup(*argv)
                        : xasprintf("%.*s,path=%s,readonly=%s,%s", (int)(at - *argv), *argv, name,
                                    read_only ? "on" : "off", at + sizeof exported - 1));
    }
    return changed;
}

/* They only save memory, so a kernel that refuses them is no reason to fail. */
static int make_library(struct inside_file file)
{
    int fd = memfd_create(file.name + 1, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd >= 0 && file_write_all(fd, file.bytes, file.size) == 0 &&
        fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) == 0)
        return fd;
    fd_close(fd);
    return -1;
}

int thin_prepare(const struct confinement *confinement, struct thin *thin, struct error *err)
{
    *thin = (struct thin){.libraries = {-1, -1}};
    if (confinement->is_frozen)
        return error_set(err, ERROR_MISSING, "a frozen machine needs a process namespace");
    if (confinement->volume_count > 1) {
        error_set(err, ERROR_MISSING, "only one folder can be shared here: mounts are refused");
        return error_hint(err, "share one folder that holds the others, or see msb doctor");
    }
    const struct machine_volume *volume = confinement->volumes;
    cleanup_free char *nothing = xasprintf("%s/" NOTHING, confinement->folder);
    if (!confinement->volume_count && folder_make(nothing, 0700, err) < 0)
        return -1;
    bool shares = confinement->volume_count > 0;
    thin->argv = change_exported(confinement->argv, shares ? volume->host_path : nothing,
                                 !shares || volume->read_only);
    thin->libraries[0] = make_library(confine_capstone());
    thin->libraries[1] = make_library(confine_pmem());
    return 0;
}

void thin_free(struct thin *thin)
{
    strv_free(thin->argv);
    for (size_t i = 0; i < THIN_LIBRARIES; i++)
        fd_close(thin->libraries[i]);
}

/* ---- inside the new process ------------------------------------------------------------- */

/* Under an id other than 0 there are none; root of a container has some. */
static int give_up_capabilities(struct error *err)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    const struct __user_cap_data_struct none[2] = {0};
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    for (int i = 0; prctl(PR_CAPBSET_READ, i, 0, 0, 0) >= 0; i++)
        prctl(PR_CAPBSET_DROP, i, 0, 0, 0);
    return syscall(SYS_capset, &header, none) == 0
               ? 0
               : error_errno(err, errno, "cannot give up capabilities");
}

struct places {
    struct landlock_place list[PLACES];
    size_t count;
};

/* What is not there cannot be opened either. */
static void allow(struct places *places, const char *path, int right)
{
    int fd = open(path, O_PATH);
    if (fd >= 0 && places->count < PLACES)
        places->list[places->count++] = (struct landlock_place){fd, right};
}

static void allow_each(struct places *places, const char *const *paths)
{
    for (; *paths; paths++)
        allow(places, *paths, LANDLOCK_READ);
}

/* Its path was resolved when it was allowed: a link in it now was put there since. QEMU opens it by
 * its name again, and gets nothing if that is another folder by then. */
static int allow_volume(struct places *places, const struct machine_volume *volume,
                        struct error *err)
{
    struct open_how how = {.flags = O_PATH | O_DIRECTORY, .resolve = RESOLVE_NO_SYMLINKS};
    int fd = (int)syscall(SYS_openat2, AT_FDCWD, volume->host_path, &how, sizeof how);
    if (fd < 0)
        return error_errno(err, errno, "cannot share folder %s", volume->host_path);
    places->list[places->count++] =
        (struct landlock_place){fd, volume->read_only ? LANDLOCK_READ : LANDLOCK_WRITE};
    return 0;
}

/* The descriptors of the places close with all others that QEMU is not to have. */
int thin_enter(const struct confinement *confinement, struct error *err)
{
    struct places places = {0};
    for (size_t i = 0; i < confinement->volume_count; i++) {
        if (allow_volume(&places, &confinement->volumes[i], err) < 0)
            return -1;
    }
    cleanup_free char *nothing = xasprintf("%s/" NOTHING, confinement->folder);
    allow(&places, nothing, LANDLOCK_READ);
    allow(&places, confinement->argv[0], LANDLOCK_EXECUTE);
    allow(&places, LOADER, LANDLOCK_EXECUTE);
    allow_each(&places, confine_libraries);
    allow_each(&places, confine_firmware);
    allow_each(&places, confinement->files);
    int result = give_up_capabilities(err);
    return result < 0 ? result : landlock_leave_only(places.list, places.count, err);
}
