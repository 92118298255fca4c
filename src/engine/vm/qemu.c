#include "engine/vm/qemu.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/wait.h"
#include "engine/vm/confine.h"
#include "engine/vm/frozen.h"
#include "engine/vm/host.h"
#include "engine/vm/pages.h"
#include "engine/vm/save.h"

#define ANSWER_MS 20000
#define EXPLAIN_MS 200
/* What QEMU needs beside the machine's memory: its heap, device state, translated code. */
#define OVERHEAD_MB 384
#define QEMU_THREADS 256
/* …and beside its processors: disk, agent's port and folders have threads of their own. */
#define SPARE_PERCENT 50
/* Names under which QEMU opens what it is given; see confine.h. */
#define MEMORY_NAME "/memory"
#define KVM_NAME "/dev/kvm"

/* Numbers of the descriptors inside, in the order they are handed over. */
enum { FD_QMP = CONFINE_FIRST_FD, FD_AGENT, FD_IMAGE, FD_DISK, FD_OVERLAY, FD_STATE, FD_KEPT };

static void add(char ***argv, const char *option, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void add(char ***argv, const char *option, const char *format, ...)
{
    strv_append(argv, xstrdup(option));
    if (!format)
        return;
    va_list args;
    va_start(args, format);
    strv_append(argv, xvasprintf(format, args));
    va_end(args);
}

static void add_processor(char ***argv, const struct machine_spec *spec, const char *accelerator)
{
    bool kvm = strcmp(accelerator, "kvm") == 0;
    add(argv, "-accel", "%s", kvm ? "kvm" : "tcg,thread=multi,tb-size=192");
    /* Emulated wide vectors cost more than they bring: tcg gets the plain 64-bit baseline that
     * today's binary packages are compiled for. */
    add(argv, "-cpu", "%s", kvm ? "host" : "Nehalem-v1,+arat");
    add(argv, "-smp", "%u", spec->cpus);
}

static void add_memory(char ***argv, const struct machine_spec *spec, bool clone)
{
    add(argv, "-m", "%uM", spec->memory_mb);
    add(argv, "-object", "memory-backend-file,id=memory,size=%uM,mem-path=" MEMORY_NAME ",share=%s",
        spec->memory_mb, clone ? "off" : "on");
    add(argv, "-machine",
        "microvm,memory-backend=memory,x-option-roms=off,auto-kernel-cmdline=off,rtc=on,"
        "ioapic2=off,pit=off");
}

/*
 * A clone's hardware must be the template's: same devices, same order. The shared folders are one
 * device whatever their number, because each is a folder of one exported tree.
 */
static void add_devices(char ***argv, const struct machine_spec *spec,
                        const struct qemu_files *files)
{
    bool clone = files->overlay >= 0;
    add(argv, "-add-fd", "fd=%d,set=1", FD_IMAGE);
    add(argv, "-add-fd", "fd=%d,set=2", FD_DISK);
    add(argv, "-blockdev",
        "driver=raw,node-name=image,read-only=on,file.driver=file,file.filename=/dev/fdset/1,"
        "file.locking=off");
    add(argv, "-blockdev",
        "driver=raw,node-name=disk,read-only=%s,file.driver=file,file.filename=/dev/fdset/2,"
        "file.locking=off",
        clone ? "on" : "off");
    if (clone) {
        add(argv, "-add-fd", "fd=%d,set=3", FD_OVERLAY);
        add(argv, "-blockdev",
            "driver=qcow2,node-name=overlay,backing=disk,file.driver=file,"
            "file.filename=/dev/fdset/3,file.locking=off");
    }
    /* The disk that outlives a machine, or nothing of the same size. */
    if (clone && files->kept >= 0) {
        add(argv, "-add-fd", "fd=%d,set=4", FD_KEPT);
        add(argv, "-blockdev",
            "driver=raw,node-name=kept,file.driver=file,file.filename=/dev/fdset/4,"
            "file.locking=off");
    } else {
        add(argv, "-blockdev", "driver=null-co,node-name=kept,read-zeroes=on,size=%llu",
            (unsigned long long)spec->disk_mb << 20);
    }
    add(argv, "-device", "virtio-blk-device,drive=image");
    add(argv, "-device", "virtio-blk-device,drive=%s", clone ? "overlay" : "disk");
    add(argv, "-device", "virtio-blk-device,drive=kept");
    add(argv, "-chardev", "socket,id=agent,fd=%d", FD_AGENT);
    add(argv, "-device", "virtio-serial-device,max_ports=2");
    add(argv, "-device", "virtserialport,chardev=agent,name=msb.agent");
    add(argv, "-fsdev",
        "local,id=volumes,path=" CONFINE_VOLUMES ",security_model=none,multidevs=remap");
    add(argv, "-device", "virtio-9p-device,fsdev=volumes,mount_tag=msb-volumes");
    add(argv, "-chardev", "ringbuf,id=console,size=16384");
    add(argv, "-serial", "chardev:console");
}

/*
 * Without the counter's rate (added below) the kernel measures it against a timer, which hangs on a
 * busy host. Mitigations and hardening protect the kernel from its programs; here both belong to
 * the guest. Huge pages are made by copying, which would undo what clones share.
 */
#define KERNEL_SETTINGS                                                                            \
    "console=ttyS0 quiet loglevel=3 panic=-1 reboot=t tsc=reliable mitigations=off "               \
    "random.trust_cpu=on cgroup_no_v1=all audit=0 psi=0 lsm=landlock init_on_alloc=0 "             \
    "hardened_usercopy=off nowatchdog noautogroup cryptomgr.notests transparent_hugepage=madvise " \
    "initcall_blacklist=load_system_certificate_list,init_kprobe_trace"

static void add_kernel(char ***argv, const struct qemu_files *files)
{
    add(argv, "-kernel", "%s", files->kernel);
    add(argv, "-initrd", "%s", files->initramfs);
    add(argv, "-append", KERNEL_SETTINGS " tsc_early_khz=%lu", host_counter_khz());
}

static char **command_line(const struct machine_spec *spec, const char *program,
                           const char *accelerator, const struct qemu_files *files)
{
    bool clone = files->overlay >= 0;
    char **argv = NULL;
    strv_append(&argv, xstrdup(program));
    add(&argv, "-nodefaults", NULL);
    add(&argv, "-no-user-config", NULL);
    add(&argv, "-no-reboot", NULL);
    add(&argv, "-display", "none");
    /* Without a clock chip the kernel looks for one for two seconds. It shows a time long ago, see
     * template_build.c. */
    add(&argv, "-rtc", "base=2000-01-01");
    add(&argv, "-sandbox",
        "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny");
    add_processor(&argv, spec, accelerator);
    add_memory(&argv, spec, clone);
    add(&argv, "-chardev", "socket,id=qmp,fd=%d", FD_QMP);
    add(&argv, "-mon", "chardev=qmp,mode=control");
    add_devices(&argv, spec, files);
    if (clone)
        add(&argv, "-incoming", "defer");
    /* What vm_save has QEMU write begins without a description of the machine. */
    if (clone && files->pages >= 0)
        add(&argv, "-global", "migration.send-configuration=off");
    if (!clone)
        add_kernel(&argv, files);
    return argv;
}

void qemu_describe(const struct machine_spec *spec, const char *accelerator, struct buf *out)
{
    const struct qemu_files clone = {.pages = -1, .kept = -1};
    cleanup_strv char **argv = command_line(spec, "qemu", accelerator, &clone);
    for (size_t i = 0; argv[i]; i++)
        buf_printf(out, "%s\n", argv[i]);
    buf_append_text(out, KERNEL_SETTINGS "\n");
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
                         const struct qemu_files *files, const char *folder, int qmp, int agent,
                         int errors, struct machine *machine, struct error *err)
{
    cleanup_free char *program = find_program(err);
    if (!program)
        return -1;
    cleanup_fd int kvm = strcmp(accelerator, "kvm") == 0 ? open(KVM_NAME, O_RDWR | O_CLOEXEC) : -1;
    const struct confined_open opens[] = {{MEMORY_NAME, files->memory}, {KVM_NAME, kvm}};
    const int fds[] = {qmp,          agent,      files->image, files->disk, files->overlay,
                       files->state, files->kept};
    const char *shown[] = {files->kernel, files->initramfs, NULL};
    cleanup_strv char **argv = command_line(spec, program, accelerator, files);
    const struct confinement confinement = {
        .argv = argv,
        .fds = fds,
        .fd_count = files->overlay < 0 ? 4
                    : files->kept < 0  ? 6
                                       : 7,
        .opens = opens,
        .open_count = kvm >= 0 ? 2 : 1,
        .files = shown,
        .volumes = spec->volumes,
        .volume_count = spec->volume_count,
        .folder = folder,
        .cgroup = &machine->cgroup,
        .stderr_fd = errors,
    };
    return confine_start(&confinement, &machine->process, &machine->exit, err);
}

/* The command line is for whoever looks at the host's processes. */
static int thaw_process(const struct machine_spec *spec, const char *accelerator,
                        const struct qemu_files *files, int frozen, const char *folder, int qmp,
                        int agent, int errors, struct machine *machine, struct error *err)
{
    int ready[2];
    cleanup_free char *program = find_program(err);
    if (!program)
        return -1;
    if (pipe2(ready, O_CLOEXEC) < 0)
        return error_errno(err, errno, "cannot make a pipe");
    const int fds[] = {qmp,         agent,         files->image, files->disk, files->overlay,
                       files->kept, files->memory, frozen,       ready[1]};
    _Static_assert(sizeof fds / sizeof fds[0] == FROZEN_GIVEN_END - CONFINE_FIRST_FD &&
                       FROZEN_QMP == CONFINE_FIRST_FD,
                   "in the order of enum frozen_given");
    const char *shown[] = {NULL};
    cleanup_strv char **argv = command_line(spec, program, accelerator, files);
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
        .stderr_fd = errors,
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

static int make_pairs(int qmp[2], int agent[2], int words[2], struct error *err)
{
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, qmp) < 0 ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, agent) < 0 ||
        pipe2(words, O_CLOEXEC | O_NONBLOCK) < 0)
        return error_errno(err, errno, "cannot make a socket pair");
    return 0;
}

static int pause_machine(struct machine *machine, struct error *err)
{
    return qmp_command(&((struct vm_machine *)machine)->qmp, "stop", NULL, -1, ANSWER_MS, err);
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
    .resume = resume_machine,
    .settle = settle_machine,
    .save = vm_save,
    .explain = explain,
    .release = release_machine,
};

_Static_assert(FD_STATE == 8, "the number stands in the text below");
#define READ_STATE "{\"uri\":\"fd:8\"}"

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

int qemu_start(const struct machine_spec *spec, const char *accelerator,
               const struct qemu_files *files, const char *folder, struct vm_machine **machine,
               struct error *err)
{
    int qmp[2] = {-1, -1}, agent[2] = {-1, -1}, words[2] = {-1, -1};
    struct vm_machine *made = make_machine(spec, accelerator);
    struct machine *base = &made->base;
    int result = make_pairs(qmp, agent, words, err);
    if (result == 0)
        result = qmp_open(&made->qmp, qmp[0], first_commands(files), err);
    if (result == 0)
        result =
            start_process(spec, accelerator, files, folder, qmp[1], agent[1], words[1], base, err);
    fd_close(qmp[1]);
    fd_close(agent[1]);
    fd_close(words[1]);
    base->agent = agent[0];
    base->words = words[0];
    if (result == 0 && files->pages >= 0)
        result = fill_memory(made, files, spec->memory_mb, err);
    if (result < 0) {
        machine_explain(base, err);
        machine_free(base);
        return -1;
    }
    *machine = made;
    return 0;
}

int qemu_thaw(const struct machine_spec *spec, const char *accelerator,
              const struct qemu_files *files, int frozen, const char *folder,
              struct vm_machine **machine, struct error *err)
{
    int qmp[2] = {-1, -1}, agent[2] = {-1, -1}, words[2] = {-1, -1};
    struct vm_machine *made = make_machine(spec, accelerator);
    struct machine *base = &made->base;
    int result = make_pairs(qmp, agent, words, err);
    qmp_continue(&made->qmp, qmp[0]);
    if (result == 0)
        result = qmp_send(&made->qmp, "cont", NULL, -1, err);
    if (result == 0)
        result = thaw_process(spec, accelerator, files, frozen, folder, qmp[1], agent[1], words[1],
                              base, err);
    fd_close(qmp[1]);
    fd_close(agent[1]);
    fd_close(words[1]);
    base->agent = agent[0];
    base->words = words[0];
    if (result < 0) {
        machine_explain(base, err);
        machine_free(base);
        return -1;
    }
    *machine = made;
    return 0;
}
