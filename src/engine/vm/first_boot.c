#include "engine/vm/first_boot.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/home.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/progress.h"
#include "base/wait.h"
#include "engine/agent_call.h"
#include "engine/disk.h"
#include "engine/vm/console.h"
#include "engine/vm/initramfs.h"

/* A kernel that boots says something every few hundred milliseconds, on a loaded host without
 * hardware virtualisation every few seconds. */
#define SILENT_MS 60000
#define GREETING_MS 20000
#define ASK_MS 10000
#define TRIES 2

/* As long as the console goes on, so does the boot. */
static int await_greeting(struct machine *machine, struct error *err)
{
    uint64_t began = clock_monotonic_ms();
    const int fds[] = {machine->agent, machine->console};
    int ready;
    while ((ready = wait_readable(fds, 2, clock_monotonic_ms() + SILENT_MS, "the machine", err)) ==
           1)
        machine_hear(machine);
    if (ready < 0)
        return ready;
    int result =
        agent_greeting(machine->agent, GREETING_MS, machine->kernel, sizeof machine->kernel, err);
    log_debug("the agent greeted after %llu ms",
              (unsigned long long)(clock_monotonic_ms() - began));
    return result;
}

static int start(const struct first_boot *boot, int memory, struct vm_machine **machine,
                 struct error *err)
{
    cleanup_free char *mounts = xasprintf("%s/mounts", boot->folder);
    cleanup_free char *initramfs = xasprintf("%s/initramfs", boot->folder);
    cleanup_free char *disk_path = xasprintf("%s/disk", boot->folder);
    int result = disk_make(disk_path, boot->spec->disk_mb, boot->spec->files, false, err);
    if (result == 0)
        result = folder_make(mounts, 0700, err);
    if (result == 0)
        result = initramfs_write(initramfs, boot->kernel, err);
    if (result < 0)
        return result;
    cleanup_fd int disk = open(disk_path, O_RDWR | O_CLOEXEC);
    cleanup_fd int image = open(boot->spec->image_path, O_RDONLY | O_CLOEXEC);
    if (disk < 0 || image < 0)
        return error_errno(err, errno, "cannot open %s",
                           disk < 0 ? disk_path : boot->spec->image_path);
    /* A machine that is booted shares no folders: its clones do. */
    struct machine_spec bare = *boot->spec;
    bare.volume_count = 0;
    const struct qemu_files files = {.memory = memory,
                                     .image = image,
                                     .disk = disk,
                                     .overlay = -1,
                                     .state = -1,
                                     .pages = -1,
                                     .kept = -1,
                                     .kernel = boot->kernel->vmlinux,
                                     .initramfs = initramfs,
                                     .arguments = boot->arguments};
    result = qemu_start(&bare, boot->accelerator, &files, mounts, machine, err);
    if (result == 0) /* the agent will tell it more exactly */
        snprintf((*machine)->base.kernel, sizeof(*machine)->base.kernel, "%s",
                 boot->kernel->version);
    return result;
}

static void remove_files(const struct first_boot *boot, bool all)
{
    cleanup_free char *mounts = xasprintf("%s/mounts", boot->folder);
    cleanup_free char *initramfs = xasprintf("%s/initramfs", boot->folder);
    cleanup_free char *disk = xasprintf("%s/disk", boot->folder);
    rmdir(mounts);
    unlink(initramfs);
    if (all)
        unlink(disk);
}

/* What a kernel is doing that has fallen silent stands on its console after this. */
static void ask_kernel(struct vm_machine *machine)
{
    struct error ignored;
    uint64_t deadline = clock_monotonic_ms() + ASK_MS;
    const int fds[] = {machine->base.exit, machine->base.console};
    int ready = qmp_command(&machine->qmp, "inject-nmi", NULL, -1, ASK_MS, &ignored);
    while (ready >= 0 && (ready = wait_readable(fds, 2, deadline, "the kernel", &ignored)) == 1)
        machine_hear(&machine->base);
}

/* One file, the newest: nobody has to clear up behind us. */
static void save_console(struct vm_machine *vm, bool is_custom, struct error *err)
{
    struct error ignored;
    struct machine *machine = &vm->base;
    machine_hear(machine);
    cleanup_free char *last = console_last_line(&machine->said);
    if (err->code == ERROR_TIMEOUT)
        ask_kernel(vm);
    cleanup_free char *folder = home_path("logs");
    cleanup_free char *path = xasprintf("%s/console.txt", folder);
    if (err->code == ERROR_TIMEOUT)
        error_wrap(err, "the machine fell silent after \"%s\"", last);
    if (folder_make(folder, 0700, &ignored) == 0 &&
        file_write_atomic(path, buf_data(&machine->said), buf_length(&machine->said), 0600,
                          &ignored) == 0)
        error_hint(err, "its console is in %s; %s", path,
                   is_custom ? "a kernel of your own needs virtio, erofs, ext4, overlay and 9p "
                               "built in, or a folder modules with a file order beside it"
                             : "try again, or another kernel: `msb prepare --update`, --kernel "
                               "FILE");
}

static int try_once(const struct first_boot *boot, int *memory, struct vm_machine **machine,
                    struct error *err)
{
    /* Not a file on disk yet: every first touch of a page would wait for its file system. */
    cleanup_fd int made = memfd_create("msb-template", MFD_CLOEXEC);
    if (made < 0 || ftruncate(made, (off_t)boot->spec->memory_mb << 20) < 0)
        return error_errno(err, errno, "cannot make the memory of a machine");
    int result = start(boot, made, machine, err);
    if (result == 0) {
        result = await_greeting(&(*machine)->base, err);
        if (result < 0) {
            machine_explain(&(*machine)->base, err);
            if (err->code != ERROR_CANCELLED)
                save_console(*machine, boot->spec->kernel, err);
            machine_free(&(*machine)->base);
        }
    }
    remove_files(boot, result < 0);
    if (result == 0)
        *memory = steal_fd(&made);
    return result;
}

int first_boot(const struct first_boot *boot, int *memory, struct vm_machine **machine,
               struct error *err)
{
    int result = -1;
    progress_detail("booting");
    for (int i = 0; i < TRIES; i++) {
        result = try_once(boot, memory, machine, err);
        if (result == 0 || err->code != ERROR_TIMEOUT)
            break;
        log_warn("%s", err->message);
        progress_detail("booting once more");
    }
    return result;
}
