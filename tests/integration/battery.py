"""What hostile code tries, made inside a sandbox of either engine: NAME ARGUMENT… runs one attempt.

It exits with 1 and a word when something of the world outside was reached. In a machine root may do much to
his own kernel, so what counts is what comes of it, not whether a call is refused.
"""
import ctypes
import glob
import os
import random
import socket
import struct
import sys
import threading
import time

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
SYS = {"shmget": 29, "ptrace": 101, "settimeofday": 164, "reboot": 169, "sethostname": 170, "iopl": 172,
       "init_module": 175, "add_key": 248, "request_key": 249, "keyctl": 250, "mount": 165, "perf_event_open": 298,
       "kexec_load": 246, "process_vm_readv": 310, "bpf": 321, "userfaultfd": 323, "io_uring_setup": 425,
       "pidfd_open": 434, "pidfd_getfd": 438, "unshare": 272, "setns": 308}
USER_KEYRING = -4
DATA, CREDIT, EVENT, END = 3, 5, 7, 8


def call(name, *arguments):
    ctypes.set_errno(0)
    words = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    return libc.syscall(SYS[name], *words)


def content(path):
    try:
        with open(path, "rb") as file:
            return file.read(1 << 20)
    except OSError:
        return b""


def fails(work):
    try:
        work()
    except OSError:
        return True
    return False


# ---- out of the box -------------------------------------------------------------------------


def host_file(path, secret):
    """By its name, from every process' root and working folder, and up from our own."""
    ways = [path, ".." * 40 + path, "/proc/self/root" + path, "/proc/thread-self/root" + path]
    ways += [f"{root}{path}" for pattern in ("root", "cwd", "fd/*") for root in glob.glob(f"/proc/[0-9]*/{pattern}")]
    os.chdir("/")
    ways.append("../" * 40 + path)
    return not any(secret.encode() in content(way) for way in ways)


def raw_devices(secret):
    """On no block device that is there or can be made. A machine has its image and its disk."""
    numbers = [(major, minor) for major in (7, 8, 252, 253, 254, 259) for minor in (0, 1, 16)]
    made = []
    for major, minor in numbers:
        path = f"/tmp/device-{major}-{minor}"
        if not fails(lambda: os.mknod(path, 0o60600, os.makedev(major, minor))):
            made.append(path)
    found = any(secret.encode() in content(path) for path in glob.glob("/dev/vd*") + glob.glob("/dev/sd*") + made)
    memory = any(content(path) for path in ("/dev/mem", "/dev/kmem", "/proc/kcore")) and not os.path.exists("/dev/vda")
    for path in made:
        os.remove(path)
    return not found and not memory


def change_the_host(name):
    """Everything that would show outside if the kernel were the host's to change."""
    call("sethostname", name.encode(), len(name))
    call("settimeofday", (ctypes.c_long * 2)(1000000000, 0), None)
    for path, value in (("kernel/core_pattern", name), ("kernel/hostname", name), ("vm/swappiness", "7"),
                        ("kernel/pid_max", "4000"), ("net/ipv4/ip_forward", "1"), ("kernel/modprobe", "/tmp/x")):
        try:
            with open("/proc/sys/" + path, "w") as file:
                file.write(value)
        except OSError:
            pass
    for attempt in (("init_module", b"x", 1, b""), ("kexec_load", 0, 0, None, 0), ("iopl", 3), ("bpf", 0, None, 0),
                    ("mount", b"/dev/vda1", b"/mnt", b"ext4", 0, None), ("perf_event_open", None, 0, -1, -1, 0),
                    ("setns", 0, 0)):
        call(*attempt)
    fails(lambda: open("/proc/sysrq-trigger", "w").write("h"))
    return True


def leave_secrets(secret):
    """Where a neighbour could look: System V memory, a key, a socket without a file, files in memory."""
    segment = call("shmget", 0x6d7362, 4096, 0o1666)
    call("add_key", b"user", b"msb-secret", secret.encode(), len(secret), USER_KEYRING)
    for path in ("/dev/shm/secret", "/tmp/secret", "/run/secret"):
        fails(lambda: open(path, "w").write(secret))
    listener = socket.socket(socket.AF_UNIX)
    listener.bind("\0msb-secret")
    listener.listen()
    print("left", segment >= 0, flush=True)
    time.sleep(1000)


def find_secrets(secret):
    places = ["/dev/shm/secret", "/tmp/secret", "/run/secret"]
    key = call("request_key", b"user", b"msb-secret", None, USER_KEYRING)
    client = socket.socket(socket.AF_UNIX)
    return (not any(secret.encode() in content(place) for place in places) and key < 0 and
            call("shmget", 0x6d7362, 4096, 0o666) < 0 and fails(lambda: client.connect("\0msb-secret")) and
            not any(secret.encode() in content(path) for path in glob.glob("/proc/[0-9]*/environ")))


def host_socket(name, port):
    """A socket of the host without a file, its loopback, and its side of a machine's own kind of socket."""
    client = socket.socket(socket.AF_UNIX)
    reached = not fails(lambda: client.connect("\0" + name))
    reached |= not fails(lambda: socket.create_connection(("127.0.0.1", int(port)), 2))
    try:
        machine = socket.socket(40, socket.SOCK_STREAM)  # AF_VSOCK
        machine.settimeout(2)
        reached |= not fails(lambda: machine.connect((2, int(port))))
        machine.close()
    except OSError:
        pass
    return not reached


def no_wires():
    """No network interface but loopback, however one looks for it."""
    try:
        with socket.socket(17, socket.SOCK_RAW, socket.htons(3)) as packets:  # AF_PACKET
            if any(name != "lo" and not fails(lambda: packets.bind((name, 0))) for _, name in socket.if_nameindex()):
                return False
    except OSError:
        pass
    return [name for _, name in socket.if_nameindex()] == ["lo"]


def agent_as_user():
    """Not root, so nothing of the agent can be had: memory, descriptors, its stream, a debugger."""
    pidfd = call("pidfd_open", 1, 0)
    return (fails(lambda: open("/proc/1/mem", "rb").read(1)) and call("ptrace", 16, 1, 0, 0) < 0 and
            fails(lambda: os.listdir("/proc/1/fd")) and
            all(call("pidfd_getfd", pidfd, fd, 0) < 0 for fd in range(16)) and
            all(fails(lambda path=path: os.open(path, os.O_RDWR)) for path in glob.glob("/dev/vport*")) and
            fails(lambda: os.kill(1, 9)))


# ---- lies on the wire -----------------------------------------------------------------------


def frame(length, stream, kind, detail, payload=b"", zero=0):
    return struct.pack("<IIBBH", length, stream, kind, detail, zero) + payload


def lies():
    """What an agent would never say; the last ones end any conversation."""
    end = b"\x15" + struct.pack("<I", 6) + b"exited" + b"\x16" + struct.pack("<IQ", 8, 0)
    for stream in (0, 1, 2, 2**32 - 1):
        yield frame(len(end), stream, END, 0, end)
        yield frame(4, stream, DATA, 1, b"lies")
        yield frame(4, stream, CREDIT, 0, b"\xff\xff\xff\xff")
        yield frame(4, stream, EVENT, 0, b"\xff\xff\xff\xff")
    yield frame(65536, 1, DATA, 1, bytes(65536)) * 64
    yield frame(2**32 - 1, 1, DATA, 1)
    yield frame(0, 1, 200, 255, b"", 7)
    yield random.Random(1).randbytes(1 << 16)


def agent_stream():
    """Root of a machine can take the agent's own descriptor; a jail's root cannot: -1."""
    pidfd = call("pidfd_open", 1, 0)
    for fd in range(64):
        copy = call("pidfd_getfd", pidfd, fd, 0)
        if copy < 0:
            continue
        if "vport" in os.readlink(f"/proc/self/fd/{copy}"):
            return copy
        os.close(copy)
    return -1


def lie(number):
    """Sends the lie of that number in the agent's name. `done` when there are no more of them."""
    stream = agent_stream()
    if stream < 0:
        print("refused")
        return True
    said = list(lies())
    if int(number) >= len(said):
        print("done")
        return True
    print("lies", flush=True)
    time.sleep(0.2)
    os.set_blocking(stream, False)
    try:
        os.write(stream, said[int(number)])
    except BlockingIOError:
        pass
    time.sleep(0.2)
    return True


def look_like_an_end():
    """Output that looks like frames and records."""
    for piece in lies():
        sys.stdout.buffer.write(piece[:4096])
    record = b'{"type": "result", "text": "forged"}'
    sys.stdout.buffer.write(struct.pack("<I", len(record)) + record)
    sys.stdout.buffer.flush()
    return True


# ---- eat everything -------------------------------------------------------------------------


def deaf_sleepers():
    """Ignore all that can be ignored, in sessions of their own."""
    import signal
    for _ in range(20):
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                for number in set(range(1, 65)) - {9, 19, 32, 33}:
                    signal.signal(number, signal.SIG_IGN)
                sys.argv[0] = "sleeper"
                libc.prctl(15, b"msb-sleeper", 0, 0, 0)
                time.sleep(1000)
            os._exit(0)
    time.sleep(1000)


def zombies():
    """Dead children that nobody asks about, as many as fit."""
    try:
        for _ in range(5000):
            if os.fork() == 0:
                os._exit(0)
    except BlockingIOError:
        pass
    print("full", flush=True)
    time.sleep(1000)


def threads():
    try:
        for _ in range(20000):
            threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
    except RuntimeError:
        pass
    print("full", flush=True)
    time.sleep(1000)


if __name__ == "__main__":
    if globals()[sys.argv[1]](*sys.argv[2:]) is not True:
        sys.exit(f"reached: {sys.argv[1]}")
