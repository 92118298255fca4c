#include "engine/vm/clone.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"

static int open_in(const char *folder, const char *name, int flags, struct error *err)
{
    cleanup_free char *path = xasprintf("%s/%s", folder, name);
    int fd = open(path, flags | O_CLOEXEC);
    return fd >= 0 ? fd : error_errno(err, errno, "cannot open %s", path);
}

/* The one that the sandbox keeps, or a copy of the one that its original had. */
static int open_kept(const struct machine_spec *spec, const char *folder, int *kept,
                     struct error *err)
{
    cleanup_free char *saved = xasprintf("%s/kept", spec->from ? spec->from : "");
    cleanup_free char *own = xasprintf("%s/kept", folder);
    if (spec->from && file_exists(saved)) {
        if (file_copy(saved, own, 0600, err) < 0)
            return -1;
        *kept = open(own, O_RDWR | O_CLOEXEC);
    } else if (spec->disk) {
        *kept = open(spec->disk, O_RDWR | O_CLOEXEC);
    } else {
        return 0;
    }
    /* A machine that had it before may still be dying, and holds the lock until it is dead. */
    if (*kept >= 0 && flock(*kept, LOCK_EX) == 0)
        return 0;
    return error_errno(err, errno, "cannot open the disk of the sandbox");
}

/* A disk of zeros that nothing can be written to, for a machine that has no other. */
static int open_nothing(unsigned size_mb, struct error *err)
{
    int fd = memfd_create("msb-nothing", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd >= 0 && ftruncate(fd, (off_t)size_mb << 20) == 0 &&
        fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) == 0)
        return fd;
    error_errno(err, errno, "cannot make an empty disk");
    fd_close(fd);
    return -1;
}

static int copy_overlay(const struct template *template, const char *name, const char *folder,
                        struct error *err)
{
    cleanup_free char *source = xasprintf("%s/%s", template->folder, name);
    cleanup_free char *own = xasprintf("%s/disk", folder);
    unlink(own);
    int result = file_copy(source, own, 0600, err);
    return result < 0 ? result : open_in(folder, "disk", O_RDWR, err);
}

static int start_frozen(const struct machine_spec *spec, const struct template *template,
                        const char *folder, struct qemu_files *files, const char *mounts,
                        struct vm_machine **machine, struct error *err)
{
    cleanup_fd int frozen = open_in(template->folder, template->frozen, O_RDONLY, err);
    if (frozen < 0)
        return frozen;
    cleanup_fd int nothing = files->kept < 0 ? open_nothing(spec->disk_mb, err) : -1;
    if (files->kept < 0 && nothing < 0)
        return -1;
    cleanup_free char *disk = xasprintf(TEMPLATE_DISK_OF, template->frozen);
    files->overlay = copy_overlay(template, disk, folder, err);
    if (files->overlay < 0)
        return files->overlay;
    struct qemu_files given = *files;
    given.kept = files->kept < 0 ? nothing : files->kept;
    return qemu_thaw(spec, template->accelerator, &given, frozen, mounts, machine, err);
}

static int start_from_state(const struct machine_spec *spec, const struct template *template,
                            const char *folder, struct qemu_files *files, const char *mounts,
                            struct vm_machine **machine, struct error *err)
{
    cleanup_fd int state = open_in(template->folder, "state", O_RDONLY, err);
    if (state < 0)
        return state;
    files->overlay = copy_overlay(template, "overlay", folder, err);
    if (files->overlay < 0)
        return files->overlay;
    cleanup_fd int pages = spec->from ? open_in(template->folder, "pages", O_RDONLY, err) : -1;
    if (spec->from && pages < 0)
        return pages;
    struct qemu_files given = *files;
    given.state = state;
    given.pages = pages;
    return qemu_start(spec, template->accelerator, &given, mounts, machine, err);
}

/* A frozen machine that cannot be thawed is no reason to fail: it can be started. */
static int start(const struct machine_spec *spec, const struct template *template,
                 const char *folder, struct qemu_files *files, const char *mounts,
                 struct vm_machine **machine, struct error *err)
{
    if (template->frozen) {
        if (start_frozen(spec, template, folder, files, mounts, machine, err) == 0)
            return 0;
        if (err->code == ERROR_CANCELLED)
            return -1;
        log_warn("a machine has to be started slowly: %s", err->message);
        fd_close(files->overlay);
        files->overlay = -1;
    }
    return start_from_state(spec, template, folder, files, mounts, machine, err);
}

static int start_with(const struct machine_spec *spec, const struct template *template,
                      const char *folder, struct qemu_files *files, struct vm_machine **machine,
                      struct error *err)
{
    cleanup_free char *mounts = xasprintf("%s/mounts", folder);
    int result = folder_make(mounts, 0700, err);
    if (result == 0)
        result = files->memory = open_in(template->folder, "ram", O_RDONLY, err);
    if (result >= 0)
        result = files->disk = open_in(template->folder, "disk", O_RDONLY, err);
    if (result >= 0 && (files->image = open(spec->image_path, O_RDONLY | O_CLOEXEC)) < 0)
        result = error_errno(err, errno, "cannot open image %s", spec->image_path);
    if (result >= 0)
        result = start(spec, template, folder, files, mounts, machine, err);
    if (result < 0)
        return result;
    struct vm_machine *made = *machine;
    made->memory = steal_fd(&files->memory);
    made->disk = steal_fd(&files->disk);
    made->overlay = steal_fd(&files->overlay);
    made->kept = steal_fd(&files->kept);
    made->memory_mb = spec->memory_mb;
    memcpy(made->key, template->key, sizeof made->key);
    memcpy(made->base.kernel, template->kernel, sizeof made->base.kernel);
    return 0;
}

static void close_files(const struct qemu_files *files)
{
    fd_close(files->memory);
    fd_close(files->disk);
    fd_close(files->image);
    fd_close(files->overlay);
    fd_close(files->kept);
}

int clone_start(const struct machine_spec *spec, const struct template *template,
                const char *folder, struct vm_machine **machine, struct error *err)
{
    struct qemu_files files = {
        .memory = -1, .image = -1, .disk = -1, .overlay = -1, .state = -1, .pages = -1, .kept = -1};
    int result = open_kept(spec, folder, &files.kept, err);
    if (result == 0)
        result = start_with(spec, template, folder, &files, machine, err);
    close_files(&files);
    return result;
}
