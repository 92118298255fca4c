#include "engine/vm/template_freeze.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/home.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/progress.h"
#include "engine/agent_call.h"
#include "engine/disk.h"
#include "engine/rehearsal.h"
#include "engine/vm/clone.h"
#include "engine/vm/freeze.h"
#include "engine/vm/template_build.h"
#include "proto/fields.h"
#include "proto/protocol.h"

#define WARM_MS 60000
#define ROUNDS 4
/* Somebody waits for the first; nobody for the second, which lets the slowest timers run out: one
 * of five seconds, until disks are written to, and one of three since that. */
#define PAUSE_MS 300
#define SETTLE_MS 9500
/* What wakes up from here is a day older, see template_build.c. */
#define DAY_US (24ull * 3600 * 1000000)

static int adopt(const struct machine *machine, const struct machine_spec *spec, const char *name,
                 bool keep, struct error *err)
{
    uint8_t entropy[64];
    cleanup_buf struct buf fields = {0};
    if (getrandom(entropy, sizeof entropy, 0) != sizeof entropy)
        return error_errno(err, errno, "cannot get random bytes");
    fields_add_bytes(&fields, TAG_ENTROPY, entropy, sizeof entropy);
    fields_add_number(&fields, TAG_REALTIME_US, clock_realtime_us() - DAY_US);
    fields_add_number(&fields, TAG_REHEARSAL, 1);
    if (keep)
        fields_add_number(&fields, TAG_KEEP, 1);
    template_describe_adoption(spec, name, &fields);
    return agent_call(machine->agent, OP_ADOPT, &fields, WARM_MS, err);
}

static int wait_idle(const struct machine *machine, int timeout_ms, struct error *err)
{
    struct pollfd wait[] = {{.fd = machine->exit, .events = POLLIN},
                            {.fd = cancel_fd(), .events = POLLIN}};
    return poll(wait, 2, timeout_ms) > 0 && wait[1].revents ? cancel_error(err) : 0;
}

/* What was put off while nothing happened comes with the first call after that. */
static int settle(const struct machine *machine, const struct machine_spec *spec, struct error *err)
{
    int result = wait_idle(machine, SETTLE_MS, err);
    return result < 0 ? result : rehearse(machine->agent, spec->language, err);
}

static int warm(struct machine *machine, const struct machine_spec *spec, bool settles,
                struct error *err)
{
    int result = 0;
    for (unsigned i = 0; result == 0 && i < ROUNDS; i++) {
        bool with_all = i % 2 == 1;
        result = adopt(machine, spec, rehearsal_name(i), with_all, err);
        if (result == 0 && with_all)
            result = rehearse_commands(machine->agent, spec->language, err);
        if (result == 0)
            result = rehearse(machine->agent, spec->language, err);
    }
    if (result == 0 && settles)
        result = settle(machine, spec, err);
    if (result == 0)
        result = wait_idle(machine, PAUSE_MS, err);
    return result < 0 ? result : adopt(machine, spec, REHEARSAL_NAME_LAST, false, err);
}

static int write_down(struct vm_machine *machine, const char *image, const char *folder,
                      struct error *err)
{
    cleanup_free char *path = xasprintf("%s/" TEMPLATE_FROZEN, folder);
    cleanup_fd int to = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    cleanup_fd int image_fd = open(image, O_RDONLY | O_CLOEXEC);
    if (to < 0 || image_fd < 0)
        return error_errno(err, errno, "cannot open %s", to < 0 ? path : image);
    const struct freeze_files files = {.image = image_fd,
                                       .disk = machine->disk,
                                       .overlay = machine->overlay,
                                       .kept = machine->kept,
                                       .memory = machine->memory,
                                       .console = machine->base.console};
    int result = machine_pause(&machine->base, err);
    return result < 0 ? result : freeze(machine->base.process, &files, to, err);
}

static int make(const struct template *template, const struct machine_spec *spec, bool settles,
                const char *folder, struct error *err)
{
    struct vm_machine *machine = NULL;
    cleanup_free char *kept = xasprintf("%s/kept", folder);
    struct machine_spec bare = *spec;
    bare.volume_count = 0;
    bare.disk = kept;
    struct template plain = *template;
    plain.frozen = NULL;
    int result = disk_make(kept, spec->disk_mb, spec->files, true, err);
    if (result == 0)
        result = clone_start(&bare, &plain, folder, &machine, err);
    if (result < 0 || !machine)
        return -1;
    machine_step_back(&machine->base, settles);
    /* Threads find their numbers again only in a namespace of their own. */
    if (machine->base.shares_root)
        result = error_set(err, ERROR_MISSING, "no process namespace can be made to thaw them in");
    if (result == 0)
        result = warm(&machine->base, spec, settles, err);
    if (result == 0)
        result = write_down(machine, spec->image_path, folder, err);
    machine_free(&machine->base);
    return result;
}

static int move(const char *from, const char *name, const char *to, const char *new_name,
                struct error *err)
{
    cleanup_free char *source = xasprintf("%s/%s", from, name);
    cleanup_free char *target = xasprintf("%s/%s", to, new_name);
    return rename(source, target) == 0 ? 0 : error_errno(err, errno, "cannot make %s", target);
}

/* Another try may go better. */
static bool may_pass(enum error_code code)
{
    return code == ERROR_NO_SPACE || code == ERROR_TIMEOUT || code == ERROR_UNAVAILABLE;
}

/* Machines are started then as they always are. */
static void do_without(const char *folder, const char *name, const struct error *reason)
{
    struct error ignored;
    cleanup_free char *path = xasprintf("%s/%s", folder, name);
    log_warn("machines start more slowly: %s", reason->message);
    unlink(path);
    if (may_pass(reason->code))
        return;
    cleanup_fd int to = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (to < 0 || frozen_refuse(to, &ignored) < 0)
        log_warn("cannot write %s", path);
}

int template_freeze(const struct template *template, const struct machine_spec *spec,
                    const char *name, struct error *err)
{
    cleanup_free char *work = NULL;
    cleanup_free char *disk = xasprintf(TEMPLATE_DISK_OF, name);
    int lock = home_workspace(&work, err);
    if (lock < 0)
        return lock;
    progress_begin("Warming up a template (%u CPU, %u MB)", spec->cpus, spec->memory_mb);
    int result = make(template, spec, strcmp(name, TEMPLATE_SETTLED) == 0, work, err);
    progress_end(result == 0);
    if (result == 0)
        result = move(work, "disk", template->folder, disk, err);
    if (result == 0)
        result = move(work, TEMPLATE_FROZEN, template->folder, name, err);
    home_workspace_end(work, lock);
    if (result < 0 && err->code != ERROR_CANCELLED) {
        do_without(template->folder, name, err);
        result = 0;
    }
    return result;
}
