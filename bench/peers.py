"""What else a user could pick: the same Python in the same root, behind other walls or none."""
import contextlib
import glob
import itertools
import os
import socket
import subprocess

import cold_qemu
import measures
from contender import IDLE, INSIDE, SCRATCH, WORK, Contender, Foreground, needs
from measures import Command
from oci import PROFILE, Bundles

ROOTFS = os.path.join(WORK, "root")
PYTHON = "/usr/bin/python3"
GROUP = "msb-bench"
numbers = itertools.count()


def new_name():
    return "%s-%d-%d" % (GROUP, os.getpid(), next(numbers))


def remove_groups():
    """Control groups that tools leave behind when they are interrupted; those in use stay."""
    for pattern in ("/sys/fs/cgroup/%s*", "/sys/fs/cgroup/*/%s*"):
        for top in glob.glob(pattern % GROUP):
            for folder, _, _ in os.walk(top, topdown=False):
                with contextlib.suppress(OSError):
                    os.rmdir(folder)


class Bare(Foreground):
    name, title, wall = "bare", "bare python3", "none: a process of the host"
    version = (PYTHON, "--version")
    parts = ("first", "burst", "again", "memory", "inside", "ports")

    def missing(self):
        return None if os.path.exists(PYTHON) else "missing: %s (apt-get install python3)" % PYTHON

    def python(self, code):
        return [PYTHON, "-c", code]

    def python_again(self, name, code):
        return self.python(code)

    def command_inside(self, program, script):
        return [program, os.path.join(INSIDE, os.path.basename(script)), SCRATCH]

    def ports(self, size):
        """Not through anything: two processes of the host."""
        with socket.socket() as reserved:
            reserved.bind(("127.0.0.1", 0))
            port = reserved.getsockname()[1]
        server = subprocess.Popen([PYTHON, os.path.join(INSIDE, "network.py"), "serve", str(port)],
                                  stderr=subprocess.DEVNULL)
        try:
            return measures.port_speeds(port, size)
        finally:
            server.kill()
            server.wait()


class Bubblewrap(Foreground):
    name, title, wall = "bubblewrap", "bubblewrap", "namespaces; no filter of system calls"
    version = ("bwrap", "--version")
    needs_mounts = True
    parts = ("first", "burst", "pandas", "memory", "inside")

    def missing(self):
        return needs("bwrap", "bubblewrap")

    def command(self, args, *options):
        return ["bwrap", "--ro-bind", ROOTFS, "/", "--dev", "/dev", "--proc", "/proc", "--unshare-all",
                "--die-with-parent", *options, *args]

    def python(self, code):
        return self.command([PYTHON, "-c", code])

    def command_inside(self, *args):
        return self.command([*args, "/srv"], "--ro-bind", INSIDE, "/media", "--bind", SCRATCH, "/srv")


class Nspawn(Foreground):
    name, title, wall = "nspawn", "systemd-nspawn", "namespaces, filter"
    version = ("systemd-nspawn", "--version")
    needs_mounts = True
    parts = ("first", "burst", "pandas", "memory", "inside")

    def missing(self):
        return needs("systemd-nspawn", "systemd-container")

    def command(self, args, *options):
        return ["systemd-nspawn", "--quiet", "--directory", ROOTFS, "--machine", new_name(), "--read-only",
                "--register=no", "--keep-unit", "--resolv-conf=off", "--timezone=off", "--link-journal=no", "--pipe",
                *options, *args]

    def python(self, code):
        return self.command([PYTHON, "-c", code])

    def command_inside(self, *args):
        return self.command([*args, "/srv"], "--bind-ro=%s:/media" % INSIDE, "--bind=%s:/srv" % SCRATCH)


class Runtime(Contender):
    """A program that runs bundles."""
    needs_mounts = True
    parts = ("first", "burst", "again", "pandas", "memory", "inside")
    options = ()

    def __init__(self, like_podman=False):
        self.bundles = Bundles(self.program, ROOTFS, like_podman)
        self.version = (self.program, "--version")

    def missing(self):
        return needs(self.program, self.program)

    def run(self, args, name=None, folders=False, detach=()):
        folder = self.bundles.folder(args, folders)
        return [self.program, *self.options, "run", *detach, "--bundle", folder, name or new_name()]

    def python(self, code):
        return self.run([PYTHON, "-c", code])

    def command_inside(self, *args):
        return self.run([*args, "/srv"], folders=True)

    def start(self, name):
        with Command(self.run([PYTHON, "-c", IDLE], name, detach=["--detach"])) as command:
            command.await_answer()

    def python_again(self, name, code):
        return [self.program, *self.options, "exec", name, PYTHON, "-c", code]

    def remove(self, name):
        subprocess.run([self.program, *self.options, "delete", "--force", name], capture_output=True)


class Crun(Runtime):
    name, title, wall = "crun", "crun", "namespaces; no filter"
    program = "crun"


class CrunFiltered(Runtime):
    name, title, wall = "crun-filter", "crun, filtered", "namespaces; podman's filter and capabilities"
    program = "crun"

    def __init__(self):
        super().__init__(like_podman=True)

    def missing(self):
        if not os.path.exists(PROFILE):
            return "missing: %s (apt-get install golang-github-containers-common)" % PROFILE
        return super().missing()


class Gvisor(Runtime):
    name, title, wall = "runsc", "runsc (gVisor, ptrace)", "a kernel in user space, namespaces, filter"
    program = "runsc"
    options = ("--network=none", "--platform=ptrace", "--ignore-cgroups")


class Podman(Contender):
    name, title, wall = "podman", "podman (crun)", "namespaces, filter, few capabilities"
    version = ("podman", "--version")
    needs_mounts = True
    parts = ("first", "burst", "again", "pandas", "memory", "inside")
    program = ("podman", "--root", "/run/podman/root", "--runroot", "/run/podman/run", "--cgroup-manager", "cgroupfs",
               "--events-backend", "none")

    def missing(self):
        return needs("podman", "podman")

    def run(self, args, *options):
        return [*self.program, "run", "--network", "none", "--cgroup-parent", "/" + GROUP, "--ulimit", "nofile=4096",
                "--ulimit", "nproc=4096", *options, "--rootfs", ROOTFS + ":O", *args]

    def python(self, code):
        return self.run([PYTHON, "-c", code], "--rm")

    def command_inside(self, *args):
        return self.run([*args, "/srv"], "--rm", "-v", INSIDE + ":/media:ro", "-v", SCRATCH + ":/srv")

    def start(self, name):
        measures.output_of(self.run([PYTHON, "-c", IDLE], "--detach", "--name", name))

    def python_again(self, name, code):
        return [*self.program, "exec", name, PYTHON, "-c", code]

    def remove(self, name):
        subprocess.run([*self.program, "rm", "--force", "--time", "0", name], capture_output=True)


def all_peers():
    return [Bare(), Bubblewrap(), Crun(), CrunFiltered(), Podman(), Nspawn(), Gvisor(), cold_qemu.ColdQemu()]
