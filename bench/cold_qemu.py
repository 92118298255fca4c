"""A machine booted for each run: the kernel, the image and the kind of machine that msb uses, without template."""
import base64
import glob
import json
import os
import re
import shlex
import shutil
import subprocess

from contender import HOME, INSIDE, WORK, Foreground, needs
from steps import Failed

FOLDER = os.path.join(WORK, "qemu")
INITRAMFS = os.path.join(FOLDER, "initramfs")
DISK = os.path.join(FOLDER, "disk")
DISK_SIZE = 1 << 30
KERNEL_SETTINGS = ("console=ttyS0 quiet loglevel=3 panic=-1 reboot=t tsc=reliable mitigations=off random.trust_cpu=on "
                   "audit=0 nowatchdog cryptomgr.notests")
MODULES = ("virtio", "virtio_ring", "virtio_mmio", "virtio_blk", "crc32c_generic", "libcrc32c", "erofs")
DISK_MODULES = ("jbd2", "mbcache", "crc16", "ext4")

INIT = """#!/busybox sh
/busybox mount -t proc proc /proc
/busybox mount -t devtmpfs dev /dev
load() { for module; do /busybox insmod /modules/$module.ko; done; }
load %s
/busybox mount -t erofs -o ro /dev/vda /root
/busybox mount -t proc proc /root/proc
/busybox mount -o bind /dev /root/dev
/busybox mount -t tmpfs tmp /root/tmp
if [ -e /dev/vdb ]; then
    load %s
    /busybox mount -t tmpfs media /root/media
    /busybox cp /inside/* /root/media
    /busybox mount -t ext4 /dev/vdb /root/srv
fi
echo $work | /busybox base64 -d >/root/tmp/work
/busybox chroot /root /bin/sh /tmp/work
/busybox reboot -f
""" % (" ".join(MODULES), " ".join(DISK_MODULES))


def image_path(home=HOME, reference="microsandbox/python"):
    with open(os.path.join(home, "images/refs", reference + ".json")) as file:
        return os.path.join(home, "images/blobs", json.load(file)["digest"].replace(":", "-") + ".erofs")


def kernel_folder():
    found = sorted(glob.glob(os.path.join(HOME, "kernels", "*", "vmlinux")))
    if not found:
        raise Failed("no kernel in %s" % HOME)
    return os.path.dirname(found[-1])


def archive_entry(name, mode, data=b""):
    """One file of an archive as the kernel unpacks it at boot (cpio, newc)."""
    numbers = [0, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0]
    head = b"070701" + b"".join(b"%08X" % number for number in numbers) + name.encode() + b"\0"
    return head + bytes(-len(head) % 4) + data + bytes(-len(data) % 4)


def file_entry(name, path, mode=0o100644):
    with open(path, "rb") as file:
        return archive_entry(name, mode, file.read())


def write_initramfs():
    modules = os.path.join(kernel_folder(), "modules")
    with open(INITRAMFS, "wb") as out:
        for folder in ("proc", "dev", "root", "modules", "inside"):
            out.write(archive_entry(folder, 0o40755))
        out.write(archive_entry("init", 0o100755, INIT.encode()))
        out.write(file_entry("busybox", shutil.which("busybox"), 0o100755))
        for module in MODULES + DISK_MODULES:
            out.write(file_entry("modules/%s.ko" % module, os.path.join(modules, module + ".ko")))
        for name in os.listdir(INSIDE):
            out.write(file_entry("inside/" + name, os.path.join(INSIDE, name), 0o100755))
        out.write(archive_entry("TRAILER!!!", 0))


def counter_khz():
    """This kind of machine has no clock that the kernel could measure the processor's counter with."""
    with open("/proc/cpuinfo") as file:
        return round(float(re.search(r"^cpu MHz\s*:\s*([\d.]+)", file.read(), re.M)[1]) * 1000)


def has_kvm():
    with open("/proc/cpuinfo") as file:
        return bool(re.search(r"^flags.*\b(vmx|svm)\b", file.read(), re.M)) and os.access("/dev/kvm", os.W_OK)


class ColdQemu(Foreground):
    name, title, wall = "qemu", "QEMU, booted cold", "a machine; QEMU itself is not confined"
    version = ("qemu-system-x86_64", "--version")
    parts = ("first", "burst", "pandas", "memory", "inside")
    most = 15
    idle_count = 5

    def missing(self):
        return needs("qemu-system-x86_64", "qemu-system-x86") or needs("busybox", "busybox-static")

    def prepare(self):
        os.makedirs(FOLDER, exist_ok=True)
        write_initramfs()

    def command(self, args, *options):
        processor = (["-accel", "kvm", "-cpu", "host"] if has_kvm() else
                     ["-accel", "tcg,thread=multi,tb-size=128", "-cpu", "Nehalem-v1,+arat"])
        work = base64.b64encode(shlex.join(args).encode()).decode()
        return ["qemu-system-x86_64", "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none",
                "-machine", "microvm,x-option-roms=off,auto-kernel-cmdline=off,rtc=on", *processor, "-m", "1024M",
                "-kernel", os.path.join(kernel_folder(), "vmlinux"), "-initrd", INITRAMFS,
                "-append", "%s tsc_early_khz=%d work=%s" % (KERNEL_SETTINGS, counter_khz(), work), "-serial", "stdio",
                "-drive", "file=%s,format=raw,if=none,id=image,read-only=on" % image_path(),
                "-device", "virtio-blk-device,drive=image", *options]

    def python(self, code):
        return self.command(["/usr/bin/python3", "-c", code])

    def command_inside(self, *args):
        with open(DISK, "wb") as file:
            file.truncate(DISK_SIZE)
        subprocess.run(["mkfs.ext4", "-q", "-F", DISK], check=True)
        return self.command([*args, "/srv"], "-drive", "file=%s,format=raw,if=none,id=disk" % DISK,
                            "-device", "virtio-blk-device,drive=disk")
