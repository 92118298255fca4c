"""Pause and resume of the sandbox named as argument: prints ok, or says what went wrong."""
import os
import sys
import time

from keeper_client import PAUSE, RESUME, Keeper


def cpu_ticks(pid):
    with open("/proc/%d/stat" % pid) as stat:
        return sum(map(int, stat.read().rpartition(")")[2].split()[11:13]))


with Keeper(os.environ["MSB_HOME"], sys.argv[1]) as keeper:
    keeper.run("import threading\nn = 0\ndef count():\n    global n\n    while True: n += 1\n\n"
               "threading.Thread(target=count, daemon=True).start()")
    assert "verdict" not in keeper.ask(PAUSE), "pause failed"
    assert keeper.status()["state"] == "paused"
    before = cpu_ticks(keeper.status()["machine_pid"])
    time.sleep(0.5)
    used = cpu_ticks(keeper.status()["machine_pid"]) - before
    assert used <= 5, "a paused machine used %d ticks" % used
    refused = keeper.run("1")[1]
    assert refused["error_code"] == "unavailable", refused
    assert "verdict" not in keeper.ask(RESUME), "resume failed"
    assert keeper.status()["state"] == "running"
    output = keeper.run("n > 0")[0]
    assert b"True" in b"".join(output.values()), output
print("ok")
