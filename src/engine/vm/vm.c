#include "engine/vm/vm.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>

#include "base/file.h"
#include "base/mem.h"
#include "engine/vm/qemu.h"
#include "engine/vm/save.h"
#include "engine/vm/template.h"

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
    *kept = -1;
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

static int clone_machine(const struct machine_spec *spec, const struct template *template,
                         const char *folder, struct vm_machine **machine, struct error *err)
{
    cleanup_free char *empty = xasprintf("%s/overlay", template->folder);
    cleanup_free char *own = xasprintf("%s/disk", folder);
    cleanup_free char *mounts = xasprintf("%s/mounts", folder);
    int result = folder_make(mounts, 0700, err);
    if (result == 0)
        result = file_copy(empty, own, 0600, err);
    if (result < 0)
        return result;
    cleanup_fd int memory = open_in(template->folder, "ram", O_RDONLY, err);
    if (memory < 0)
        return memory;
    cleanup_fd int disk = open_in(template->folder, "disk", O_RDONLY, err);
    if (disk < 0)
        return disk;
    cleanup_fd int state = open_in(template->folder, "state", O_RDONLY, err);
    if (state < 0)
        return state;
    cleanup_fd int overlay = open_in(folder, "disk", O_RDWR, err);
    if (overlay < 0)
        return overlay;
    cleanup_fd int image = open(spec->image_path, O_RDONLY | O_CLOEXEC);
    if (image < 0)
        return error_errno(err, errno, "cannot open image %s", spec->image_path);

    cleanup_fd int pages = spec->from ? open_in(template->folder, "pages", O_RDONLY, err) : -1;
    if (spec->from && pages < 0)
        return pages;
    cleanup_fd int kept = -1;
    if (open_kept(spec, folder, &kept, err) < 0)
        return -1;

    const struct qemu_files files = {.memory = memory,
                                     .image = image,
                                     .disk = disk,
                                     .overlay = overlay,
                                     .state = state,
                                     .pages = pages,
                                     .kept = kept};
    result = qemu_start(spec, template->accelerator, &files, mounts, machine, err);
    if (result < 0)
        return result;
    struct vm_machine *made = *machine;
    made->memory = steal_fd(&memory);
    made->disk = steal_fd(&disk);
    made->overlay = steal_fd(&overlay);
    made->kept = steal_fd(&kept);
    made->memory_mb = spec->memory_mb;
    memcpy(made->key, template->key, sizeof made->key);
    memcpy(made->base.kernel, template->kernel, sizeof made->base.kernel);
    return 0;
}

static int vm_start(const struct machine_spec *spec, const char *folder, struct machine **machine,
                    struct error *err)
{
    struct template template;
    int result = spec->from ? vm_saved(spec, &template, err) : template_find(spec, &template, err);
    if (result < 0)
        return result;
    struct vm_machine *clone = NULL;
    result = clone_machine(spec, &template, folder, &clone, err);
    if (result == 0)
        *machine = &clone->base;
    template_release(&template);
    return result;
}

const struct engine vm_engine = {
    .name = "vm",
    .saves_memory = true,
    .prepare = template_ensure,
    .start = vm_start,
};
