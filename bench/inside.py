"""Runs inside an environment: how fast Python, system calls and files are there, as JSON.

    inside.py FOLDER      the folder is on the environment's disk
"""
import json
import os
import subprocess
import sys
import time

STEPS = 1000000
FILE_MB = 64
CALLS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "calls")


def elapsed_ms(work):
    began = time.monotonic()
    work()
    return (time.monotonic() - began) * 1000


def count():
    total = 0
    for number in range(STEPS):
        total += number


def write(path):
    block = bytes(range(256)) * 4096
    with open(path, "wb", buffering=0) as file:
        for _ in range(FILE_MB):
            file.write(block)


def read(path):
    with open(path, "rb", buffering=0) as file:
        while file.read(1 << 20):
            pass


def file_speeds(path):
    """MB/s, the best of three."""
    try:
        writes = [elapsed_ms(lambda: write(path)) for _ in range(3)]
        reads = [elapsed_ms(lambda: read(path)) for _ in range(3)]
    finally:
        os.unlink(path)
    size = FILE_MB * (1 << 20) / 1000
    return {"write": round(size / min(writes), 1), "read": round(size / min(reads), 1)}


def calls():
    lines = subprocess.run([CALLS], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True).stdout.decode()
    return {name: float(value) for name, value in (line.split(":") for line in lines.splitlines())}


if __name__ == "__main__":
    print(json.dumps({"loop_ms": round(min(elapsed_ms(count) for _ in range(3)), 2), "calls_ns": calls(),
                      "files": file_speeds(os.path.join(sys.argv[1], "msb-bench-file"))}))
