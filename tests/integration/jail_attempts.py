"""Attempts to get out of a jail, made inside of it: NAME… runs those; exits with 1 when one works."""
import ctypes
import errno
import fcntl
import mmap
import os
import signal
import socket
import sys

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long

CLONE_NEWUSER, CLONE_NEWNS = 0x10000000, 0x00020000
SYS = {
    "clone": 56, "ptrace": 101, "syslog": 103, "personality": 135, "pivot_root": 155, "settimeofday": 164,
    "mount": 165, "umount2": 166, "swapon": 167, "reboot": 169, "iopl": 172, "init_module": 175,
    "add_key": 248, "request_key": 249, "keyctl": 250, "unshare": 272, "move_pages": 279,
    "perf_event_open": 298, "name_to_handle_at": 303, "open_by_handle_at": 304, "clock_settime": 227,
    "setns": 308, "process_vm_readv": 310, "process_vm_writev": 311, "finit_module": 313,
    "kexec_file_load": 320, "bpf": 321, "userfaultfd": 323, "io_uring_setup": 425, "open_tree": 428,
    "fsopen": 430, "clone3": 435, "openat2": 437, "pidfd_getfd": 438, "mount_setattr": 442,
}


def call(name, *arguments):
    """0 or more when it worked, else -errno."""
    ctypes.set_errno(0)
    result = libc.syscall(SYS[name], *[ctypes.c_long(a) if isinstance(a, int) else a for a in arguments])
    return result if result >= 0 else -ctypes.get_errno()


def refused(result, *reasons):
    return -result in (reasons or (errno.EPERM, errno.ENOSYS))


def in_child(work):
    """The exit status of a child that exits with what `work` returns."""
    pid = os.fork()
    if pid == 0:
        os._exit(work())
    return os.waitpid(pid, 0)[1]


def fails(work):
    try:
        work()
    except OSError:
        return True
    return False


def mounts():
    return (refused(call("mount", b"none", b"/mnt", b"tmpfs", 0, None)) and
            refused(call("umount2", b"/proc", 2)) and refused(call("pivot_root", b".", b".")) and
            refused(call("fsopen", b"tmpfs", 0)) and refused(call("open_tree", -100, b"/", 1)) and
            refused(call("mount_setattr", -100, b"/", 0, None, 0)))


def namespaces():
    host = os.open("/proc/1/ns/mnt", os.O_RDONLY) if os.access("/proc/1/ns/mnt", os.R_OK) else 0
    flags = (ctypes.c_uint64 * 11)(CLONE_NEWUSER, 0, 0, 0, signal.SIGCHLD)
    return (all(refused(call("unshare", flag)) and refused(call("clone", flag | signal.SIGCHLD, 0, 0, 0, 0))
                for flag in (CLONE_NEWUSER, CLONE_NEWNS, 0x40000000, 0x20000000, 0x02000000)) and
            refused(call("unshare", 0x80)) and
            refused(call("clone3", flags, ctypes.sizeof(flags))) and refused(call("setns", host, 0)))


def other_processes():
    buffer = ctypes.create_string_buffer(16)
    vector = (ctypes.c_void_p * 2)(ctypes.addressof(buffer), 16)
    return (refused(call("ptrace", 16, 1, 0, 0)) and refused(call("ptrace", 0, 0, 0, 0)) and
            refused(call("process_vm_readv", 1, vector, 1, vector, 1, 0)) and
            refused(call("process_vm_writev", 1, vector, 1, vector, 1, 0)) and
            refused(call("pidfd_getfd", 0, 3, 0)) and fails(lambda: open("/proc/1/mem", "rb")) and
            all(fails(lambda fd=fd: os.open(f"/proc/1/fd/{fd}", os.O_PATH)) for fd in range(12)) and fails(lambda: os.readlink("/proc/1/exe")) and
            fails(lambda: open("/proc/1/environ").read()))


def keys():
    return (refused(call("keyctl", 0, -3, 0, 0, 0)) and refused(call("add_key", b"user", b"x", b"y", 1, -3)) and
            refused(call("request_key", b"user", b"x", None, -3)))


def risky_calls():
    return all(refused(call(name, 0, 0, 0, 0, 0)) for name in
               ("io_uring_setup", "bpf", "perf_event_open", "userfaultfd", "open_by_handle_at", "move_pages",
                "openat2", "name_to_handle_at"))


def kernel():
    return all(refused(call(name, 0, 0, 0, 0, 0)) for name in
               ("init_module", "finit_module", "kexec_file_load", "reboot", "swapon", "iopl", "syslog",
                "settimeofday", "clock_settime"))


def sockets():
    kinds = [(family, kind, 0) for family in (38, 40, 17, 29, 21, 15) for kind in (1, 2, 3, 5)]
    kinds += [(16, 3, protocol) for protocol in (4, 9, 12, 15, 16)] + [(2, 3, 1), (10, 3, 58)]
    return all(fails(lambda kind=kind: socket.socket(*kind)) for kind in kinds)


def personality():
    return refused(call("personality", 0x0400000)) and refused(call("personality", 8))


def old_calls():
    """getpid of 32-bit programs, by machine code; the child is killed for it."""
    def work():
        code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        code.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")
        address = ctypes.addressof(ctypes.c_char.from_buffer(code))
        return 0 if ctypes.CFUNCTYPE(ctypes.c_int)(address)() == os.getpid() else 1
    x32 = in_child(lambda: 0 if libc.syscall(0x40000000 + 39) > 0 else 1)
    return os.WIFSIGNALED(in_child(work)) and x32 != 0


def terminals():
    def work():
        os.setsid()
        master, slave = os.openpty()
        fcntl.ioctl(slave, 0x540E, 0)  # TIOCSCTTY
        try:
            fcntl.ioctl(slave, 0x5412, b"x")  # TIOCSTI
        except PermissionError:
            # The kernel looks at 32 bits of the number only.
            return 0 if libc.syscall(16, slave, ctypes.c_long(0x5412 | 1 << 32), b"x") < 0 else 1
        return 1
    return in_child(work) == 0


def devices():
    """None can be made, and those of the host are not there."""
    there = {name for name in os.listdir("/dev")}
    return (fails(lambda: os.mknod("/tmp/disk", 0o60600, os.makedev(254, 0))) and
            fails(lambda: os.mknod("/tmp/mem", 0o20600, os.makedev(1, 1))) and
            there == {"null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm", "fd", "stdin",
                      "stdout", "stderr"})


def landlock():
    """Where the kernel has it, it refuses devices before anybody looks at capabilities, and files still move."""
    for folder in ("a", "b"):
        os.makedirs(f"/tmp/landlock-{folder}", exist_ok=True)
    open("/tmp/landlock-a/file", "w").close()
    os.rename("/tmp/landlock-a/file", "/tmp/landlock-b/file")
    os.remove("/tmp/landlock-b/file")
    os.rmdir("/tmp/landlock-a")
    os.rmdir("/tmp/landlock-b")
    if libc.syscall(444, None, 0, 1) < 2:
        return True
    try:
        os.mknod("/tmp/mem", 0o20600, os.makedev(1, 1))
    except OSError as reason:
        return reason.errno == errno.EACCES
    return False


def kernel_files():
    def write(path):
        with open(path, "r+b", buffering=0) as file:
            file.write(b"0")
    paths = ["/proc/sys/kernel/hostname", "/proc/sys/kernel/core_pattern", "/proc/sys/vm/drop_caches",
             "/proc/sys/kernel/randomize_va_space", "/proc/sys/user/max_user_namespaces", "/proc/irq/default_smp_affinity"]
    secrets = ["kcore", "kmsg", "keys", "kallsyms", "timer_list", "iomem", "slabinfo",
               "cmdline", "interrupts", "partitions"]
    empty = all(not os.path.exists(f"/proc/{name}") or read_some(f"/proc/{name}") == b"" for name in secrets)
    trigger = os.stat("/proc/sysrq-trigger") if os.path.exists("/proc/sysrq-trigger") else None
    covered = trigger is None or trigger.st_rdev == os.makedev(1, 3)
    return empty and covered and all(fails(lambda path=path: write(path)) for path in paths)


def read_some(path):
    try:
        with open(path, "rb") as file:
            return file.read(16)
    except OSError:
        return b""


def groups():
    """No control groups to be seen, in files or by name."""
    with open("/proc/self/mountinfo") as file:
        mounted = any(" - cgroup" in line for line in file)
    with open("/proc/self/cgroup") as file:
        shown = [line.strip().split(":", 2)[2] for line in file]
    return not mounted and all(path == "/" or path.startswith("/msb-") for path in shown)


def privileges():
    """No capabilities and no way to any, by setuid programs either."""
    with open("/proc/self/status") as file:
        status = dict(line.rstrip("\n").split(":\t", 1) for line in file)
    sets = [int(status[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")]
    su = os.system("su -c true </dev/null >/dev/null 2>&1; sudo -n true </dev/null >/dev/null 2>&1")
    user = os.getuid()
    return (not any(sets) and status["NoNewPrivs"] == "1" and (su != 0 or user == 0) and
            fails(lambda: os.chroot("/tmp")) and fails(lambda: os.setuid(1 if user == 0 else 0)))


def descriptors():
    """Nothing but what every process has."""
    extra = set(os.listdir("/proc/self/fd")) - {"0", "1", "2"}
    return all(not os.path.exists(f"/proc/self/fd/{fd}") for fd in extra)


def ways_up():
    """The root has nothing above it."""
    os.chdir("/")
    above = os.stat("..")
    return (above.st_dev, above.st_ino) == (os.stat("/").st_dev, os.stat("/").st_ino)


if __name__ == "__main__":
    worked = [name for name in sys.argv[1:] if not globals()[name]()]
    if worked:
        sys.exit(f"not refused: {', '.join(worked)}")
