"""The pool and its host: memory pressure, processors that are taken, what a stop gives back.

    pool_host.py HOME TEST…

MSB_ENGINE chooses what isolates them.
"""
import contextlib
import errno
import os
import select
import subprocess
import sys
import tempfile
import threading
import urllib.request

from pool import await_gone, check, fill, keepers_ahead, status_of
from pool_server import PoolServer

# Reads a file again and again in a group that has less memory than the file.
THRASH = """
import mmap, os, sys
os.nice(-10)  # on a busy host they would wait for a processor instead
open(sys.argv[1] + "/cgroup.procs", "w").write(str(os.getpid()))
file = os.open(sys.argv[2], os.O_RDONLY)
for _ in range(10000):
    with mmap.mmap(file, 0, prot=mmap.PROT_READ) as memory:
        for page in range(0, len(memory), 4096):
            memory[page]
"""
# Where memory is counted, its limit and what takes part in it but can be given back.
HIERARCHIES = (("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
                ("total_active_file", "total_inactive_file")),
               ("/sys/fs/cgroup", "memory.max", "memory.current", ("active_file", "inactive_file")))
READERS = 4


class Pressure:
    """Programs that wait for memory, in a group of their own: the host has plenty."""

    def __init__(self, folder):
        self.file = os.path.join(folder, "file")
        self.group, self.readers = None, []
        for self.top, self.limit, self.usage, self.cached in HIERARCHIES:
            if os.path.exists(f"{self.top}/{self.limit}"):
                break
        with open(self.file, "wb") as file:
            file.write(os.urandom(64 << 20))
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    def __enter__(self):
        self.group = f"{self.top}/msb-test-{os.getpid()}"
        os.mkdir(self.group)
        self.set_limit(self.group, 12 << 20)
        self.readers = [subprocess.Popen([sys.executable, "-c", THRASH, self.group, self.file])
                        for _ in range(READERS)]
        return self

    def __exit__(self, *_):
        for reader in self.readers:
            reader.kill()
            reader.wait()
        for _ in range(100):
            try:
                os.rmdir(self.group)
                return
            except OSError:
                threading.Event().wait(0.05)

    @staticmethod
    def await_notice():
        """Until the kernel tells of it."""
        with open("/proc/pressure/memory", "r+b", buffering=0) as file:
            file.write(b"some 300000 2000000\0")
            poll = select.poll()
            poll.register(file, select.POLLPRI)
            assert poll.poll(60000), "no pressure"

    def set_limit(self, group, size):
        with open(f"{group}/{self.limit}", "wb", buffering=0) as file:
            file.write(str(size).encode())

    def held(self):
        """By all groups together, that cannot be given back at once."""
        with open(f"{self.top}/{self.usage}", encoding="ascii") as file:
            used = int(file.read())
        with open(f"{self.top}/memory.stat", encoding="ascii") as file:
            return used - sum(int(number) for name, number in map(str.split, file)
                              if name in self.cached)

    @contextlib.contextmanager
    def shortage(self):
        """For all groups together a limit just above what they hold, which is enough for that to be exact."""
        ballast = b"x" * (256 << 20)
        for tries in range(200):
            try:
                self.set_limit(self.top, self.held() * 8 // 7)
                break
            except OSError as error:  # more was asked for in the meantime
                if error.errno != errno.EBUSY or tries == 199:
                    raise
                threading.Event().wait(0.05)
        try:
            yield
        finally:
            self.set_limit(self.top, -1 if "limit" in self.limit else "max")
            del ballast


def given_up_when_memory_is_short(home):
    """At once, not when the next one is made; later there are some again."""
    with PoolServer(home, size=2, max=2) as server, tempfile.TemporaryDirectory(dir=home) as folder:
        fill(server, 2)
        waiting = keepers_ahead(home)
        with Pressure(folder) as pressure, pressure.shortage():
            server.await_counts(lambda counts: counts["stock"] == 0 and counts["dropped"] >= 2)
            await_gone(waiting)
        server.start("box")
        check(server.run("box", "print(6*7)"), "42")
        server.stop("box")
        server.await_counts(lambda counts: counts["stock"] == 2)


def kept_when_one_is_short_of_its_own(home):
    """Whoever runs into his own limit takes nothing from the others."""
    with PoolServer(home, size=2, max=2) as server, tempfile.TemporaryDirectory(dir=home) as folder:
        fill(server, 2)
        with Pressure(folder) as pressure:
            for _ in range(3):
                pressure.await_notice()
            server.start("box")
        server.stop("box")
        counts = server.await_counts(lambda counts: counts["hits"] == 1 and counts["stock"] == 2)
        check(counts["dropped"], 0)


def starts_succeed_on_a_busy_host(home):
    """More at once than wait, while all processors are taken."""
    answers = {}

    def use(name):
        connection = server.connect()
        server.start(name, connection)
        answers[name] = server.run(name, "print(6*7)", connection)
        server.stop(name, connection)
        connection.close()
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"])
            for _ in range(os.cpu_count())]
    try:
        with PoolServer(home, size=2, max=2) as server:
            fill(server, 2)
            for turn in range(3):
                threads = [threading.Thread(target=use, args=(f"box-{turn}-{i}",)) for i in range(4)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
            check(list(answers.values()), ["42"] * 12)
            server.await_counts(lambda counts: counts["stock"] == 2)
    finally:
        for process in busy:
            process.kill()
            process.wait()


def share_of(keeper):
    """Of the processors, in thousandths of the usual; of the group that the keeper has made."""
    for path, usual in (("cpu/msb/%d/cpu.shares", 1024), ("msb/%d/cpu.weight", 100)):
        try:
            with open("/sys/fs/cgroup/" + path % keeper, encoding="ascii") as file:
                return int(file.read()) * 1000 // usual
        except FileNotFoundError:
            continue
    raise FileNotFoundError(f"no group of {keeper}")


def steps_back_until_it_is_wanted(home):
    with PoolServer(home, size=1, max=1) as server:
        fill(server, 1)
        keeper = keepers_ahead(home)[0]
        assert share_of(keeper) <= 100, share_of(keeper)
        server.start("box")
        check(status_of(home, "box")["keeper_pid"], keeper)
        check(share_of(keeper), 1000)
        server.stop("box")


def counted_in_metrics(home):
    with PoolServer(home, size=1, max=1) as server:
        fill(server, 1)
        server.start("box")
        server.stop("box")
        counts = server.await_counts(lambda counts: counts["hits"] == 1 and counts["stock"] == 1)
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics", timeout=20) as answer:
            lines = dict(line.rsplit(" ", 1) for line in answer.read().decode().splitlines()
                         if line.startswith("msb_pool"))
        shown = {name.removeprefix("msb_pool_").removesuffix("_total"): int(float(value))
                 for name, value in lines.items()}
        check(shown, counts)


def children_of(pid):
    children = []
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/children", encoding="ascii") as file:
            children += [int(child) for child in file.read().split()]
    return children


WRITE_FOR_EVER = """
import subprocess
subprocess.Popen(["setsid", "sh", "-c", "while :; do echo x >>/shared/lines; done"])
while not __import__("os").path.exists("/shared/lines"): pass
print("begun")
"""


def stop_returns_everything(home):
    """Once stop has answered nothing inside acts any more; then all of it goes."""
    with tempfile.TemporaryDirectory() as folder:
        with PoolServer(home, ["--allow-volumes", folder], size=0) as server:
            os.chmod(folder, 0o777)
            lines = os.path.join(folder, "lines")
            server.start("box", volumes=[f"{folder}:/shared"])
            check(server.run("box", WRITE_FOR_EVER), "begun")
            keeper = status_of(home, "box")["keeper_pid"]
            processes = [keeper] + children_of(keeper)
            assert len(processes) > 1, processes
            server.stop("box")
            size = os.path.getsize(lines)
            check(os.path.exists(os.path.join(home, "sandboxes", "default", "box")), False)
            await_gone(processes)
            check(os.path.getsize(lines), size)
            server.start("box")
            check(server.run("box", "print(6*7)"), "42")
            server.stop("box")


def main():
    home = sys.argv[1]
    os.environ["MSB_HOME"] = home
    for name in sys.argv[2:]:
        globals()[name](home)


if __name__ == "__main__":
    main()
