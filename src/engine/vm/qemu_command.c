#include "engine/vm/qemu_command.h"

#include <stdarg.h>
#include <string.h>

#include "base/mem.h"
#include "engine/vm/host.h"

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
    add(argv, "-object", "memory-backend-file,id=memory,size=%uM,mem-path=" QEMU_MEMORY ",share=%s",
        spec->memory_mb, clone ? "off" : "on");
    add(argv, "-machine",
        "microvm,memory-backend=memory,x-option-roms=off,auto-kernel-cmdline=off,rtc=on,"
        "ioapic2=off,pit=off");
    /* Loads the kernel by itself. Other firmware, which some distributions make the default, needs
     * the option ROM that is switched off above. */
    add(argv, "-bios", "qboot.rom");
}

/*
 * A clone's hardware must be the template's: same devices, same order. The shared folders are one
 * device whatever their number, because each is a folder of one exported tree.
 */
static void add_devices(char ***argv, const struct machine_spec *spec,
                        const struct qemu_files *files)
{
    bool clone = files->overlay >= 0;
    add(argv, "-add-fd", "fd=%d,set=1", QEMU_FD_IMAGE);
    add(argv, "-add-fd", "fd=%d,set=2", QEMU_FD_DISK);
    add(argv, "-blockdev",
        "driver=raw,node-name=image,read-only=on,file.driver=file,file.filename=/dev/fdset/1,"
        "file.locking=off");
    add(argv, "-blockdev",
        "driver=raw,node-name=disk,read-only=%s,file.driver=file,file.filename=/dev/fdset/2,"
        "file.locking=off",
        clone ? "on" : "off");
    if (clone) {
        add(argv, "-add-fd", "fd=%d,set=3", QEMU_FD_OVERLAY);
        add(argv, "-blockdev",
            "driver=qcow2,node-name=overlay,backing=disk,file.driver=file,"
            "file.filename=/dev/fdset/3,file.locking=off");
    }
    /* The disk that outlives a machine, or nothing of the same size. */
    if (clone && files->kept >= 0) {
        add(argv, "-add-fd", "fd=%d,set=4", QEMU_FD_KEPT);
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
    add(argv, "-chardev", "socket,id=agent,fd=%d", QEMU_FD_AGENT);
    add(argv, "-device", "virtio-serial-device,max_ports=2");
    add(argv, "-device", "virtserialport,chardev=agent,name=msb.agent");
    add(argv, "-fsdev",
        "local,id=volumes,path=" CONFINE_VOLUMES ",security_model=none,multidevs=remap");
    add(argv, "-device", "virtio-9p-device,fsdev=volumes,mount_tag=msb-volumes");
    add(argv, "-add-fd", "fd=%d,set=5", QEMU_FD_CONSOLE);
    add(argv, "-chardev", "file,id=console,path=/dev/fdset/5,append=on");
    add(argv, "-serial", "chardev:console");
}

/*
 * Without the counter's rate (added below) the kernel measures it against a timer, which hangs on a
 * busy host. Mitigations and hardening protect the kernel from its programs; here both belong to
 * the guest. Huge pages are made by copying, which would undo what clones share. A kernel that has
 * made a mistake ends its machine: otherwise whoever waits for it would wait for ever. It tells the
 * console about its boot, and at an NMI what all its processes are doing, so that one that stops on
 * the way shows where; the agent silences it.
 */
#define KERNEL_SETTINGS                                                                            \
    "console=ttyS0 earlycon=uart8250,io,0x3f8 loglevel=7 oops=panic panic=-1 reboot=t "            \
    "sysctl.kernel.panic_on_unrecovered_nmi=1 panic_print=1 "                                      \
    "tsc=reliable mitigations=off "                                                                \
    "random.trust_cpu=on cgroup_no_v1=all audit=0 psi=0 lsm=landlock init_on_alloc=0 "             \
    "hardened_usercopy=off nowatchdog noautogroup cryptomgr.notests transparent_hugepage=madvise " \
    "initcall_blacklist=load_system_certificate_list,init_kprobe_trace"

static void add_kernel(char ***argv, const struct qemu_files *files)
{
    add(argv, "-kernel", "%s", files->kernel);
    add(argv, "-initrd", "%s", files->initramfs);
    add(argv, "-append", KERNEL_SETTINGS " tsc_early_khz=%lu%s%s", host_counter_khz(),
        files->arguments ? " -- " : "", files->arguments ? files->arguments : "");
}

char **qemu_command(const struct machine_spec *spec, const char *program, const char *accelerator,
                    const struct qemu_files *files)
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
    add(&argv, "-chardev", "socket,id=qmp,fd=%d", QEMU_FD_QMP);
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
    cleanup_strv char **argv = qemu_command(spec, "qemu", accelerator, &clone);
    for (size_t i = 0; argv[i]; i++)
        buf_printf(out, "%s\n", argv[i]);
    buf_append_text(out, KERNEL_SETTINGS "\n");
}
