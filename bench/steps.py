"""A step of a benchmark: work in a process of its own, so that no failure ends the run and nothing outlives it.

A step has a time limit. When that is over, or at Ctrl-C, its work is interrupted, may clean up, and whatever
processes are left then are ended. Peers run in mounts of their own: see private_mounts().
"""
import contextlib
import ctypes
import os
import pickle
import select
import signal
import subprocess
import sys
import time

CLONE_NEWNS, MS_REC, MS_PRIVATE, MNT_DETACH = 0x20000, 0x4000, 0x40000, 2
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
CLEANUP_S = 60

libc = ctypes.CDLL(None, use_errno=True)


class Failed(Exception):
    """Something that was to be measured did not work; the text says why."""


def reason_of(error):
    """One line."""
    text = str(error).strip() or type(error).__name__
    if isinstance(error, (Failed, TimeoutError)):
        return text.splitlines()[-1][:200]
    return ("%s: %s" % (type(error).__name__, text.splitlines()[-1]))[:200]


def checked(result, what):
    if result < 0:
        raise OSError(ctypes.get_errno(), "%s: %s" % (what, os.strerror(ctypes.get_errno())))


# ---- processes below this one ---------------------------------------------------------------------


def parents():
    """The parent of every process."""
    found = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            with open("/proc/%s/stat" % entry) as file:
                found[int(entry)] = int(file.read().rpartition(")")[2].split()[1])
    return found


def descendants(of):
    """Of a process, those included whose own parents are gone when it inherits them."""
    children = {}
    for pid, parent in parents().items():
        children.setdefault(parent, []).append(pid)
    found, rest = [], [of]
    while rest:
        below = children.get(rest.pop(), [])
        found += below
        rest += below
    return found


def started_here():
    """All processes that the work of this step has started and that still run."""
    return [pid for pid in descendants(os.getppid()) if pid != os.getpid()]


def kill_all(pids):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def end_descendants():
    for _ in range(50):
        left = descendants(os.getpid())
        if not left:
            return
        kill_all(left)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.02)


# ---- steps: a guardian inherits and ends what the worker leaves behind ------------------------------


def worker(work, namespace, out):
    """The answer of the work goes to out."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        if namespace is not None:
            checked(libc.setns(namespace, CLONE_NEWNS), "setns")
        answer = (True, work())
    except BaseException as error:  # also a KeyboardInterrupt: the caller has to know
        answer = (False, reason_of(error))
    with os.fdopen(out, "wb") as file:
        pickle.dump(answer, file)


def guardian(work, namespace, out):
    os.setsid()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGINT)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1)
    pid = os.fork()
    if pid == 0:
        run_and_exit(worker, work, namespace, out)
    signal.signal(signal.SIGINT, lambda *_: os.kill(pid, signal.SIGINT))
    while os.waitpid(-1, 0)[0] != pid:
        pass
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_descendants()


def run_and_exit(call, *args):
    """In a new process; never comes back."""
    try:
        call(*args)
    finally:
        os._exit(0)


def read_until(fd, deadline):
    """All there is, or None when it takes too long."""
    pieces = []
    while select.select([fd], [], [], max(0, deadline - time.monotonic()))[0]:
        piece = os.read(fd, 65536)
        if not piece:
            return b"".join(pieces)
        pieces.append(piece)
    return None


def interrupt(pid, fd):
    os.kill(pid, signal.SIGINT)
    if read_until(fd, time.monotonic() + CLEANUP_S) is None:
        kill_all([*descendants(pid), pid])


def step(work, seconds, namespace=None):
    """What work() returns; raises Failed with what it raised or when it takes longer."""
    ours, theirs = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        os.close(ours)
        run_and_exit(guardian, work, namespace, theirs)
    os.close(theirs)
    try:
        told = read_until(ours, time.monotonic() + seconds)
        if told is None:
            interrupt(pid, ours)
            raise Failed("not done after %d s" % seconds)
    except KeyboardInterrupt:
        interrupt(pid, ours)
        raise
    finally:
        os.close(ours)
        os.waitpid(pid, 0)
    if not told:
        raise Failed("the process that measured ended early")
    succeeded, result = pickle.loads(told)
    if not succeeded:
        raise Failed(result)
    return result


# ---- mounts ---------------------------------------------------------------------------------------


def mount_apart(image, root):
    checked(libc.unshare(CLONE_NEWNS), "unshare")
    checked(libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None), "mount")
    libc.umount2(b"/sys/fs/cgroup/unified", MNT_DETACH)  # absent on most hosts
    subprocess.run(["mount", "-t", "tmpfs", "none", "/run"], check=True)
    subprocess.run(["mount", "-o", "loop,ro", image, root], check=True, stderr=subprocess.PIPE)


def hold_mounts(image, root, tell, go_on):
    mount_apart(image, root)
    os.write(tell, b".")
    os.read(go_on, 1)


def private_mounts(image, root):
    """A descriptor of mounts for peers, gone with it: the image at root; an empty /run, where container tools keep
    their state; and no control groups of version 2 beside version 1, which crun and podman do not want to see."""
    if os.geteuid() != 0:
        raise Failed("needs root, to mount the image")
    os.makedirs(root, exist_ok=True)
    ready, tell = os.pipe()
    go_on, release = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(release)
        run_and_exit(hold_mounts, image, root, tell, go_on)
    os.close(tell)
    os.close(go_on)
    try:
        if os.read(ready, 1) != b".":
            raise Failed("cannot mount the image in a mount namespace of its own")
        return os.open("/proc/%d/ns/mnt" % pid, os.O_RDONLY)
    finally:
        os.close(ready)
        os.close(release)
        os.waitpid(pid, 0)
