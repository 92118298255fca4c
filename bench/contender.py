"""What can be measured of everything that runs code by a command, ours and others alike."""
import contextlib
import json
import os
import shutil
import subprocess
import time

from machine import SETTLE_S, growth, usage
from measures import CODE, Command, Samples, burst_of_commands, first_output_ms, output_of, repeat

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WORK = os.path.join(ROOT, "build", "bench")
INSIDE = os.path.join(WORK, "inside")
SCRATCH = os.path.join(WORK, "scratch")
TESTS = os.path.join(ROOT, "tests", "integration")
HOME = os.environ.get("MSB_BENCH_HOME", os.path.join(WORK, "home"))
IDLE = CODE[:-1] + ", flush=True); import time; time.sleep(3600)"


def fill_inside():
    """The folder of programs that run inside."""
    for folder in (INSIDE, SCRATCH):
        os.makedirs(folder, exist_ok=True)
    source = os.path.join(ROOT, "bench", "calls.c")
    subprocess.run(["gcc", "-O2", "-static", "-o", os.path.join(INSIDE, "calls"), source], check=True)
    shutil.copy(os.path.join(ROOT, "bench", "inside.py"), INSIDE)
    shutil.copy(os.path.join(TESTS, "network.py"), INSIDE)


class Contender:
    """name: for --only. title: in tables. wall: what is between its code and the host. version: the command that
    tells it. parts: what is measured.
    most: how many samples at most, for the slow ones; idle_count: how many idle ones are weighed at most.

    Those that run commands define python(), and where it can be done start(), python_again(), remove()."""
    ours = False
    needs_mounts = False
    parts = ("first", "burst")
    most = None
    idle_count = 20

    def missing(self):
        """Why it cannot be measured here, or None."""
        return None

    def prepare(self):
        """Once, before any clock runs."""

    def python(self, code):
        """The command that runs code in an environment that is made for it."""
        raise NotImplementedError

    def firsts(self, count, seconds, code=CODE):
        argvs = [self.python(code) for _ in range(count)]
        if self.most is None:
            Samples().take(lambda: first_output_ms(self.python(code)))  # so that its files are in memory
        return repeat(lambda: first_output_ms(argvs.pop()), count, seconds)

    def burst(self, count):
        return burst_of_commands([self.python(CODE) for _ in range(count)])

    def agains(self, count, seconds):
        with self.idle(1) as (name,):
            argv = self.python_again(name, CODE)
            first_output_ms(argv)
            return repeat(lambda: first_output_ms(argv), count, seconds)

    @contextlib.contextmanager
    def idle(self, count):
        """So many environments that have answered and now wait."""
        names = ["bench-%d-%d" % (os.getpid(), number) for number in range(count)]
        try:
            for name in names:
                self.start(name)
            yield names
        finally:
            for name in names:
                self.remove(name)

    def weigh(self, count):
        """MiB of an idle one."""
        before = usage()
        with self.idle(count):
            time.sleep(SETTLE_S)
            return growth(before, usage(), count)

    def inside(self):
        """What bench/inside.py found."""
        told = output_of(self.command_inside("/usr/bin/python3", "/media/inside.py"))
        return json.JSONDecoder().raw_decode(told, told.index("{"))[0]


class Foreground(Contender):
    """One whose command stays as long as the environment does, and which nothing can be run in later."""

    def __init__(self):
        self.running = {}

    def start(self, name):
        self.running[name] = Command(self.python(IDLE))
        self.running[name].await_answer()

    def remove(self, name):
        if name in self.running:
            self.running.pop(name).kill()


def needs(program, package):
    if not shutil.which(program):
        return "missing: %s is not installed (apt-get install %s)" % (program, package)
    return None
