#include "engine/vm/qemu.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/wait.h"
#include "engine/vm/confine.h"
#include "engine/vm/console.h"
#include "engine/vm/frozen.h"
#include "engine/vm/host.h"
#include "engine/vm/pages.h"
#include "engine/vm/qemu_command.h"
#include "engine/vm/save.h"
#include "engine/vm/template.h"

#define ANSWER_MS 20000
#define EXPLAIN_MS 200
/* What QEMU needs beside the machine's memory: its heap, device state, translated code. */
#define OVERHEAD_MB 384
#define QEMU_THREADS 256
/* …and beside its processors: disk, agent's port and folders have threads of their own. */
#define SPARE_PERCENT 50

/* Of its sockets and of the pipes for its console and its complaints: ours, and QEMU's. */
struct ends {
    int qmp[2], agent[2], console[2], words[2];
};

static int make_ends(struct ends *ends, struct error *err)
{
    *ends = (struct ends){{-1, -1}, {-1, -1}, {-1, -1}, {-1, -1}};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends->qmp) < 0 ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends->agent) < 0 ||
        pipe2(ends->console, O_CLOEXEC | O_NONBLOCK) < 0 ||
        pipe2(ends->words, O_CLOEXEC | O_NONBLOCK) < 0)
        return error_errno(err, errno, "cannot make a socket pair");
    return 0;
}

static char *find_program(struct error *err)
{
    char *program = host_qemu();
    if (!program) {
        error_set(err, ERROR_MISSING, "QEMU is not installed");
        error_hint(err, "apt-get install qemu-system-x86, or set MSB_QEMU to its path");
    }
    return program;
}

static int start_process(const struct machine_spec *spec, const char *accelerator,
                         const struct qemu_files *files, const char *folder,
                         const struct ends *ends, struct machine *machine, struct error *err)
{
    cleanup_free char *program = find_program(err);
    if (!program)
        return -1;
    cleanup_fd int kvm = strcmp(accelerator, "kvm") == 0 ? open(QEMU_KVM, O_RDWR | O_CLOEXEC) : -1;
    const struct confined_open opens[] = {{QEMU_MEMORY, files->memory}, {QEMU_KVM, kvm}};
    const int fds[] = {ends->qmp[1], ends->agent[1], ends->console[1], files->image,
                       files->disk,  files->overlay, files->state,     files->kept};
    const char *shown[] = {files->kernel, files->initramfs, NULL};
    cleanup_strv char **argv = qemu_command(spec, program, accelerator, files);
    const struct confinement confinement = {
        .argv = argv,
        .fds = fds,
        .fd_count = files->overlay < 0 ? 5
                    : files->kept < 0  ? 7
                                       : 8,
        .opens = opens,
        .open_count = kvm >= 0 ? 2 : 1,
        .files = shown,
        .volumes = spec->volumes,
        .volume_count = spec->volume_count,
        .folder = folder,
        .cgroup = &machine->cgroup,
        .stderr_fd = ends->words[1],
        .is_thin = &machine->shares_root,
    };
    return confine_start(&confinement, &machine->process, &machine->exit, err);
}

/* The command line is for whoever looks at the host's processes. */
static int thaw_process(const struct machine_spec *spec, const char *accelerator,
                        const struct qemu_files *files, int frozen, const char *folder,
                        const struct ends *ends, struct machine *machine, struct error *err)
{
    int ready[2];
    cleanup_free char *program = find_program(err);
    if (!program)
        return -1;
    if (pipe2(ready, O_CLOEXEC) < 0)
        return error_errno(err, errno, "cannot make a pipe");
    const int fds[] = {ends->qmp[1],   ends->agent[1], ends->console[1], files->image, files->disk,
                       files->overlay, files->kept,    files->memory,    frozen,       ready[1]};
    _Static_assert(sizeof fds / sizeof fds[0] == FROZEN_GIVEN_END - CONFINE_FIRST_FD &&
                       FROZEN_QMP == CONFINE_FIRST_FD,
                   "in the order of enum frozen_given");
    const char *shown[] = {NULL};
    cleanup_strv char **argv = qemu_command(spec, program, accelerator, files);
    const struct confinement confinement = {
        .argv = argv,
        .is_frozen = true,
        .fds = fds,
        .fd_count = sizeof fds / sizeof fds[0],
        .files = shown,
        .volumes = spec->volumes,
        .volume_count = spec->volume_count,
        .folder = folder,
        .cgroup = &machine->cgroup,
        .stderr_fd = ends->words[1],
    };
    int result = confine_start(&confinement, &machine->process, &machine->exit, err);
    close(ready[1]);
    char byte;
    if (result == 0)
        result =
            wait_readable(&ready[0], 1, clock_monotonic_ms() + ANSWER_MS, "a frozen machine", err);
    if (result >= 0 && read(ready[0], &byte, 1) != 1)
        result = error_set(err, ERROR_IO, "a frozen machine could not be thawed");
    close(ready[0]);
    return result < 0 ? -1 : 0;
}

static int pause_machine(struct machine *machine, struct error *err)
{
    return qmp_command(&((struct vm_machine *)machine)->qmp, "stop", NULL, -1, ANSWER_MS, err);
}

static int poise_machine(struct machine *machine, struct error *err)
{
    return qmp_begin(&((struct vm_machine *)machine)->qmp, "cont", err);
}

static int resume_machine(struct machine *machine, struct error *err)
{
    return qmp_send(&((struct vm_machine *)machine)->qmp, "cont", NULL, -1, err);
}

static int settle_machine(struct machine *machine, struct error *err)
{
    return qmp_settle(&((struct vm_machine *)machine)->qmp, ANSWER_MS, err);
}

static void explain(struct machine *machine, struct error *err)
{
    struct error refused;
    struct qmp *qmp = &((struct vm_machine *)machine)->qmp;
    if (qmp->unanswered && qmp_settle(qmp, EXPLAIN_MS, &refused) < 0 && refused.code == ERROR_IO)
        *err = refused;
    machine_hear(machine);
    cleanup_free char *crash = console_crash(&machine->said);
    if (crash)
        error_set(err, ERROR_UNAVAILABLE, "the kernel of its machine, Linux %s, crashed: %s",
                  machine->kernel, crash);
}

static bool distrust(const struct machine *machine)
{
    return template_distrust(((const struct vm_machine *)machine)->key);
}

static void release_machine(struct machine *machine)
{
    struct vm_machine *vm = (struct vm_machine *)machine;
    qmp_close(&vm->qmp);
    fd_close(vm->memory);
    fd_close(vm->disk);
    fd_close(vm->overlay);
    fd_close(vm->kept);
    free(machine);
}

static const struct machine_ops ops = {
    .pause = pause_machine,
    .poise = poise_machine,
    .resume = resume_machine,
    .settle = settle_machine,
    .save = vm_save,
    .explain = explain,
    .distrust = distrust,
    .release = release_machine,
};

_Static_assert(QEMU_FD_STATE == 9, "the number stands in the text below");
#define READ_STATE "{\"uri\":\"fd:9\"}"

/* A clone of a template needs two commands that no option can stand for. */
static const char *first_commands(const struct qemu_files *files)
{
    bool at_once = files->overlay >= 0 && files->pages < 0;
    return at_once ? "{\"execute\":\"migrate-set-capabilities\",\"arguments\":{\"capabilities\":"
                     "[{\"capability\":\"x-ignore-shared\",\"state\":true}]}}\n"
                     "{\"execute\":\"migrate-incoming\",\"arguments\":" READ_STATE "}\n"
                   : NULL;
}

/* The pages of a saved machine go in before its processors know of them. */
static int fill_memory(struct vm_machine *machine, const struct qemu_files *files,
                       unsigned memory_mb, struct error *err)
{
    int result = qmp_settle(&machine->qmp, ANSWER_MS, err);
    if (result == 0)
        result = pages_load(machine->base.process, files->memory, (size_t)memory_mb << 20,
                            files->pages, err);
    return result < 0
               ? result
               : qmp_command(&machine->qmp, "migrate-incoming", READ_STATE, -1, ANSWER_MS, err);
}

/* A machine without its process. */
static struct vm_machine *make_machine(const struct machine_spec *spec, const char *accelerator)
{
    struct vm_machine *made = xcalloc(1, sizeof *made);
    struct machine *base = &made->base;
    machine_init(base, &ops);
    made->qmp.fd = made->memory = made->disk = made->overlay = made->kept = -1;
    base->cpu_percent = spec->cpu_percent ? spec->cpu_percent : spec->cpus * 100 + SPARE_PERCENT;
    strncpy(base->accelerator, accelerator, sizeof base->accelerator - 1);
    cgroup_create(&base->cgroup,
                  &(struct cgroup_limits){
                      .memory_bytes = (uint64_t)(spec->memory_mb + OVERHEAD_MB) << 20,
                      .processes = QEMU_THREADS,
                  });
    return made;
}

/* QEMU runs, or does not. */
static int finish_start(struct vm_machine *made, const struct ends *ends, int result,
                        struct vm_machine **machine, struct error *err)
{
    struct machine *base = &made->base;
    fd_close(ends->qmp[1]);
    fd_close(ends->agent[1]);
    fd_close(ends->console[1]);
    fd_close(ends->words[1]);
    base->console = ends->console[0];
    base->agent = ends->agent[0];
    base->words = ends->words[0];
    if (result < 0) {
        machine_explain(base, err);
        machine_free(base);
        return -1;
    }
    *machine = made;
    return 0;
}

int qemu_start(const struct machine_spec *spec, const char *accelerator,
               const struct qemu_files *files, const char *folder, struct vm_machine **machine,
               struct error *err)
{
    struct ends ends;
    struct vm_machine *made = make_machine(spec, accelerator);
    int result = make_ends(&ends, err);
    if (result == 0)
        result = qmp_open(&made->qmp, ends.qmp[0], first_commands(files), err);
    if (result == 0)
        result = start_process(spec, accelerator, files, folder, &ends, &made->base, err);
    if (result == 0 && files->pages >= 0)
        result = fill_memory(made, files, spec->memory_mb, err);
    return finish_start(made, &ends, result, machine, err);
}

int qemu_thaw(const struct machine_spec *spec, const char *accelerator,
              const struct qemu_files *files, int frozen, const char *folder,
              struct vm_machine **machine, struct error *err)
{
    struct ends ends;
    struct vm_machine *made = make_machine(spec, accelerator);
    int result = make_ends(&ends, err);
    qmp_continue(&made->qmp, ends.qmp[0]);
    if (result == 0)
        result = qmp_send(&made->qmp, "cont", NULL, -1, err);
    if (result == 0)
        result = thaw_process(spec, accelerator, files, frozen, folder, &ends, &made->base, err);
    return finish_start(made, &ends, result, machine, err);
}
