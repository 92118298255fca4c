"""
A copy of the zygote moves into a jail that has just been made, and gives up all that this took,
before it runs anybody's code. What fails here ends the process, and the jail starts one of its own.
"""
import _signal
import _thread
import ctypes
import os
import struct
import sys
import threading

# From <linux/sched.h>, <linux/prctl.h>, <linux/capability.h> and <linux/landlock.h>.
NAMESPACES = (0x00000080 | 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000
              | 0x20000000 | 0x40000000)  # time, mount, cgroup, uts, ipc, user, pid, net
PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_CAPBSET_DROP = 4, 22, 24
SECCOMP_MODE_FILTER = 2
CAPABILITY_VERSION_3 = 0x20080522
CAPABILITIES = 64
SYS_LANDLOCK_CREATE, SYS_LANDLOCK_ADD, SYS_LANDLOCK_RESTRICT = 444, 445, 446  # everywhere
MAKE_CHAR, MAKE_BLOCK, REFER = 1 << 6, 1 << 11, 1 << 13
LANDLOCK_VERSION_MIN = 2

THREAD_WORDS = 512  # as much of the C library's own record of a thread as is sure to be there
libc = ctypes.CDLL(None, use_errno=True)
libc.pthread_self.restype = ctypes.c_void_p
try:
    hand_over = ctypes.PyDLL(driver.folder + "/hand_over.so").hand_over
except OSError:
    hand_over = None


class Filter(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("program", ctypes.c_char_p)]


def check(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def system_call(number, *arguments):
    values = (v if isinstance(v, bytes) else ctypes.c_long(v) for v in arguments)
    return libc.syscall(ctypes.c_long(number), *values)


def find_thread_number():
    """Where the C library keeps the number of this thread, if that can be told."""
    number = _thread.get_native_id()
    words = (ctypes.c_int * THREAD_WORDS).from_address(libc.pthread_self())
    places = [place for place, word in enumerate(words) if word == number]
    return ctypes.byref(words, 4 * places[0]) if len(places) == 1 else None


def find_rseq():
    try:
        offset = ctypes.c_ssize_t.in_dll(libc, "__rseq_offset").value
    except ValueError:
        return None
    return ctypes.c_void_p(libc.pthread_self() + offset)


def go_inside(number, rseq):
    """
    Comes back in a process that is inside, a child of the jail's first one. That gets what
    processes in there leave behind, but not what we do: we are still outside ourselves.
    """
    signals = _signal.pthread_sigmask(_signal.SIG_BLOCK, _signal.valid_signals())
    if not hand_over or not number or hand_over(number, rseq):
        fork_twice()
    _signal.pthread_sigmask(_signal.SIG_SETMASK, signals)
    threading.main_thread()._set_native_id()
    os.setsid()


def fork_twice():
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        os._exit(0)
    if os.fork():
        os._exit(0)


def drop_privileges(user, group, groups):
    for capability in range(CAPABILITIES):
        if libc.prctl(PR_CAPBSET_DROP, ctypes.c_ulong(capability), 0, 0, 0) < 0:
            break  # more than this kernel has
    os.setgroups(groups)
    os.setresgid(group, group, group)
    os.setresuid(user, user, user)
    header = struct.pack("Ii", CAPABILITY_VERSION_3, 0)
    check(libc.capset(header, bytes(24)))


def shut_in():
    """As landlock.c does for the jail."""
    if system_call(SYS_LANDLOCK_CREATE, 0, 0, 1) < LANDLOCK_VERSION_MIN:
        return
    rules = check(system_call(SYS_LANDLOCK_CREATE, struct.pack("Q", MAKE_CHAR | MAKE_BLOCK | REFER),
                              8, 0))
    root = os.open("/", os.O_PATH | os.O_DIRECTORY)
    check(system_call(SYS_LANDLOCK_ADD, rules, 1, struct.pack("=Qi", REFER, root), 0))
    check(system_call(SYS_LANDLOCK_RESTRICT, rules, 0))
    os.close(root)
    os.close(rules)


def reopen_input():
    null = os.open(os.devnull, os.O_RDONLY)
    for fd in (0, sys.stdin.fileno()):
        os.dup2(null, fd, inheritable=fd == 0)
    os.close(null)


def enter_groups(doors):
    """Takes the kernel some time, while the jail is still being made."""
    for door in doors:
        os.write(door, b"0")
        os.close(door)


def move(place, program, jail, user, group, groups):
    check(libc.setns(jail, NAMESPACES))
    os.close(jail)
    go_inside(*place)
    os.umask(0o022)
    reopen_input()
    drop_privileges(user, group, groups)
    shut_in()
    check(libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER,
                     ctypes.byref(Filter(len(program) // 8, program)), 0, 0))
    # Others of this user may look at it, as at any program that was started here: but only now.
    check(libc.prctl(PR_SET_DUMPABLE, ctypes.c_ulong(1), 0, 0, 0))


def enter(control, user, group, *groups):
    """Waits for a jail; the descriptors for a context, once inside."""
    copies = driver.part("copies")
    place = find_thread_number(), find_rseq()
    copies.announce(control)
    try:
        _, doors = copies.receive(control)
        enter_groups(doors)
        program, (jail, *fds) = copies.receive(control)
        os.close(control)
        move(place, program, jail, user, group, groups)
    except OSError as error:
        os.write(2, b"cannot enter a jail: %r\n" % error)
        raise
    return fds
