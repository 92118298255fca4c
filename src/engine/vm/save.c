#include "engine/vm/save.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "engine/vm/host.h"
#include "engine/vm/kernel.h"
#include "engine/vm/pages.h"
#include "engine/vm/qemu.h"
#include "engine/vm/template_key.h"

#define STATE_MS 60000
/* Names the file that QEMU writes its state to; others are in use by the machine's disks. */
#define STATE_SET "9"

static int create(const char *folder, const char *name, struct error *err)
{
    cleanup_free char *path = xasprintf("%s/%s", folder, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    return fd >= 0 ? fd : error_errno(err, errno, "cannot create %s", path);
}

/* By a link where the file still has a name, and on the same disk. */
static int share(int file, const char *folder, const char *name, struct error *err)
{
    cleanup_free char *source = xasprintf("/proc/self/fd/%d", file);
    cleanup_free char *path = xasprintf("%s/%s", folder, name);
    if (linkat(AT_FDCWD, source, AT_FDCWD, path, AT_SYMLINK_FOLLOW) == 0)
        return 0;
    return file_copy(source, path, 0600, err);
}

/*
 * Everything but memory. A migration would carry along all of the memory, which is private here;
 * the command that Xen uses leaves it out.
 */
static int save_state(struct vm_machine *machine, const char *folder, struct error *err)
{
    cleanup_fd int state = create(folder, "state", err);
    if (state < 0)
        return state;
    struct qmp *qmp = &machine->qmp;
    struct error ignored;
    int result = qmp_command(qmp, "add-fd", "{\"fdset-id\":" STATE_SET "}", state, STATE_MS, err);
    if (result < 0)
        return result;
    result = qmp_command(qmp, "xen-save-devices-state",
                         "{\"filename\":\"/dev/fdset/" STATE_SET "\",\"live\":false}", -1, STATE_MS,
                         err);
    qmp_command(qmp, "remove-fd", "{\"fdset-id\":" STATE_SET "}", -1, STATE_MS, &ignored);
    return result;
}

static int save_memory(struct vm_machine *machine, const char *folder, struct error *err)
{
    cleanup_fd int pages = create(folder, "pages", err);
    return pages < 0 ? pages
                     : pages_save(machine->base.process, machine->memory,
                                  (size_t)machine->memory_mb << 20, pages, err);
}

static int copy(int file, const char *folder, const char *name, struct error *err)
{
    cleanup_free char *source = xasprintf("/proc/self/fd/%d", file);
    cleanup_free char *path = xasprintf("%s/%s", folder, name);
    return file_copy(source, path, 0600, err);
}

static int describe(const struct vm_machine *machine, const char *folder, struct error *err)
{
    json_t *about = json_pack("{s:s, s:s, s:s}", "key", machine->key, "kernel",
                              machine->base.kernel, "accelerator", machine->base.accelerator);
    cleanup_free char *text = json_dumps(about, JSON_INDENT(2));
    json_decref(about);
    cleanup_free char *path = xasprintf("%s/machine.json", folder);
    return file_write_atomic(path, text, strlen(text), 0600, err);
}

static int write_down(struct vm_machine *machine, const char *folder, struct error *err)
{
    int result = save_state(machine, folder, err);
    if (result == 0)
        result = save_memory(machine, folder, err);
    if (result == 0)
        result = copy(machine->overlay, folder, "overlay", err);
    if (result == 0 && machine->kept >= 0)
        result = copy(machine->kept, folder, "kept", err);
    return result;
}

int vm_save(struct machine *base, const char *folder, struct error *err)
{
    struct error late;
    struct vm_machine *machine = (struct vm_machine *)base;
    int result = share(machine->memory, folder, "ram", err);
    if (result == 0)
        result = share(machine->disk, folder, "disk", err);
    if (result == 0)
        result = describe(machine, folder, err);
    if (result == 0)
        result = machine_pause(base, err);
    if (result < 0)
        return result;
    result = write_down(machine, folder, err);
    if (machine_resume(base, &late) < 0 && result == 0) {
        *err = late;
        result = -1;
    }
    return result;
}

/* ---- copies -------------------------------------------------------------------------------- */

static int expected_key(const struct machine_spec *spec, const char *accelerator, char **key,
                        struct error *err)
{
    struct kernel kernel;
    int result = kernel_find(spec->kernel, &kernel, err);
    if (result < 0)
        return result;
    result = template_key(spec, &kernel, accelerator, key, err);
    kernel_release(&kernel);
    return result;
}

int vm_saved(const struct machine_spec *spec, struct template *template, struct error *err)
{
    *template = (struct template){0};
    cleanup_free char *path = xasprintf("%s/machine.json", spec->from);
    json_t *about = json_load_file(path, 0, NULL);
    const char *key = json_string_value(json_object_get(about, "key"));
    const char *kernel = json_string_value(json_object_get(about, "kernel"));
    cleanup_free char *expected = NULL;
    int result = host_accelerator(spec->accelerator, &template->accelerator, err);
    if (result == 0 && (!key || !kernel))
        result = error_set(err, ERROR_INVALID, "%s holds no saved machine", spec->from);
    if (result == 0)
        result = expected_key(spec, template->accelerator, &expected, err);
    if (result == 0 && strcmp(key, expected) != 0) {
        error_set(err, ERROR_INVALID,
                  "the saved machine does not fit this host any more: its "
                  "kernel, QEMU, msb or, with kvm, the processor has changed since");
        result = error_hint(err, "start the sandbox from its image and save it again");
    }
    if (result == 0) {
        snprintf(template->kernel, sizeof template->kernel, "%s", kernel);
        snprintf(template->key, sizeof template->key, "%s", key);
        template->folder = xstrdup(spec->from);
    }
    json_decref(about);
    return result;
}
