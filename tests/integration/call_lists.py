"""Compares a sweep (stdin, from call_sweep.py) with the lists of src/engine/jail/filter_calls.c."""
import collections
import os
import re
import sys

HEADER = "/usr/include/x86_64-linux-gnu/asm/unistd_64.h"
FILTER = os.path.join(os.path.dirname(__file__), "../../src/engine/jail/filter_calls.c")
# Allowed by some arguments only.
BY_ARGUMENTS = {"personality"}
# uretprobe and uprobe: the kernel lets them pass every filter, and kills who calls them by hand.
BY_KERNEL = {335: "uretprobe", 336: "uprobe"}


def listed(name):
    with open(FILTER) as file:
        text = file.read()
    body = text[text.index(f"static const int {name}[]"):]
    return set(re.findall(r"SCMP_SYS\((\w+)\)", body[:body.index("};")]))


with open(HEADER) as file:
    numbers = {int(number): name for name, number in re.findall(r"__NR_(\w+) (\d+)", file.read())}
numbers |= BY_KERNEL
allowed = listed("allowed") | BY_ARGUMENTS | set(BY_KERNEL.values())
refused = listed("refused")
wrong, count = [], collections.Counter()
for line in sys.stdin:
    number, word = line.split()
    name = numbers.get(int(number), f"number {number}")
    count[word] += 1
    if name not in allowed and word != ("refused" if name in refused else "absent"):
        wrong.append(f"{name} is {word}")
assert sum(count.values()) >= 450, count
assert count["there"] <= len(allowed), count
assert not wrong, wrong
print(dict(count))
