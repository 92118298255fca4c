"""What this machine is, and how much of its memory is in use."""
import os
import platform
import re
import subprocess

from steps import started_here

SETTLE_S = 2


def read(path):
    with open(path) as file:
        return file.read()


def available_kib():
    """MemAvailable and the free pages on per-CPU lists, which it leaves out."""
    free = int(re.search(r"MemAvailable:\s+(\d+)", read("/proc/meminfo"))[1])
    lists = re.findall(r"^\s+count:\s+(\d+)", read("/proc/zoneinfo"), re.M)
    return free + 4 * sum(map(int, lists))


def pss_kib(pid):
    """The memory of a process, its share of what it shares; 0 when it has ended."""
    try:
        found = re.search(r"^Pss:\s+(\d+)", read("/proc/%d/smaps_rollup" % pid), re.M)
    except OSError:
        return 0
    return int(found[1]) if found else 0


def pss_below_kib():
    """Of all processes that this step has started."""
    return sum(map(pss_kib, started_here()))


def usage():
    """Of the whole machine and of this step, for growth()."""
    return available_kib(), pss_below_kib()


def growth(before, after, count):
    """MiB of each of so many: by the fall of available memory, and by the memory of processes."""
    return {"count": count, "mib": round((before[0] - after[0]) / 1024 / max(1, count), 1),
            "pss_mib": round((after[1] - before[1]) / 1024 / max(1, count), 1)}


def describe():
    processor = re.search(r"model name\s*:\s*(.*)", read("/proc/cpuinfo"))
    total = int(re.search(r"MemTotal:\s+(\d+)", read("/proc/meminfo"))[1])
    system = re.search(r'PRETTY_NAME="?([^"\n]*)', read("/etc/os-release"))
    return {
        "processor": processor[1] if processor else platform.machine(),
        "processors": os.cpu_count(),
        "memory_gib": round(total / 1024 / 1024, 1),
        "kernel": ".".join(platform.release().split(".")[:2]),
        "system": system[1] if system else "Linux",
        "load": round(os.getloadavg()[0], 1),
    }


def version_of(argv):
    """The first line that a program tells of itself; empty when it is not there."""
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return (done.stdout or done.stderr).strip().partition("\n")[0]
