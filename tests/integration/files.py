"""Tries one property of files in a running sandbox: files.py HOME NAME PROPERTY."""
import json
import os
import struct
import sys
import time

from agent_harness import (DATA, EOF, FILE_CHANGES, FILE_LIST, FILE_MAKE, FILE_READ, FILE_REMOVE,
                           FILE_STAT, FILE_WATCH, FILE_WRITE, RESULTS, STDIN, STDOUT)
from keeper_client import PAUSE, RESUME, Keeper


def come_back_whole(home, name):
    data = os.urandom(20_000_000)
    with Keeper(home, name) as keeper:
        assert "verdict" not in keeper.call(FILE_WRITE, data, path="/tmp/file")[1]
        assert keeper.call(FILE_READ, path="/tmp/file")[0][STDOUT] == data
        part = keeper.call(FILE_READ, path="/tmp/file", offset=1_000_000, length=500_000)
        assert part[0][STDOUT] == data[1_000_000:1_500_000]
        keeper.call(FILE_REMOVE, path="/tmp/file")
        assert keeper.call(FILE_STAT, path="/tmp/file")[1]["error_code"] == "not_found"


def are_not_in_the_log(home, name):
    with Keeper(home, name) as keeper:
        keeper.call(FILE_WRITE, b"confidential", path="/tmp/file")
        assert keeper.call(FILE_READ, path="/tmp/file")[0][STDOUT] == b"confidential"
        keeper.run("print('printed')")
    with open(os.path.join(home, "sandboxes", "default", name, "output.log"), "rb") as log:
        assert log.read() == b"printed\n"


def are_those_of_the_default_user(home, name):
    with Keeper(home, name) as keeper:
        keeper.call(FILE_WRITE, b"mine", path="/tmp/mine")
        entry = keeper.call(FILE_STAT, path="/tmp/mine")[0][RESULTS]
        assert b'"uid":0,' not in entry, entry
        assert keeper.call(FILE_READ, path="/etc/shadow")[1]["error_code"] == "denied"
        assert "verdict" not in keeper.call(FILE_READ, path="/etc/shadow", user="root")[1]


def are_left_alone_by_a_client_that_goes_away(home, name):
    with Keeper(home, name) as keeper:
        keeper.call(FILE_MAKE, path="/tmp/folder")
        keeper.begin(FILE_WRITE, path="/tmp/folder/file")
        keeper.send(DATA, STDIN, bytes(100_000))
        keeper.frame()
    with Keeper(home, name) as keeper:
        deadline = time.monotonic() + 10
        while keeper.call(FILE_LIST, path="/tmp/folder")[0]:
            assert time.monotonic() < deadline, "something is left"


def cannot_be_had_while_paused(home, name):
    with Keeper(home, name) as keeper:
        keeper.ask(PAUSE)
        assert keeper.call(FILE_STAT, path="/")[1]["error_code"] == "unavailable"
        keeper.ask(RESUME)
        assert "verdict" not in keeper.call(FILE_STAT, path="/")[1]


def on_a_volume_are_there_on_the_host(home, name):
    with Keeper(home, name) as keeper:
        for text in b"one", b"two":
            end = keeper.call(FILE_WRITE, text, path="/data/folder/file", parents=1, mode=0o640)[1]
            assert "verdict" not in end, end


def large_ones_on_a_volume_come_back_whole(home, name):
    data = os.urandom(3_000_001)
    with Keeper(home, name) as keeper:
        assert "verdict" not in keeper.call(FILE_WRITE, data, path="/data/large")[1]
        assert keeper.call(FILE_READ, path="/data/large")[0][STDOUT] == data


def next_records(keeper):
    """Those of the next piece: small ones are never cut."""
    while True:
        stream, kind, _, payload = keeper.frame()
        if stream == keeper.stream and kind == DATA:
            break
    found = []
    while payload:
        length = struct.unpack_from("<I", payload)[0]
        found.append(json.loads(payload[4:4 + length]))
        payload = payload[4 + length:]
    return found


def are_told_as_they_change(home, name):
    with Keeper(home, name) as watcher, Keeper(home, name) as keeper:
        watcher.begin(FILE_WATCH, path="/tmp", recursive=1)
        assert next_records(watcher) == [{"type": "ready"}]
        keeper.call(FILE_WRITE, b"x", path="/tmp/new/file", parents=1)
        told = []
        while {"type": "create", "name": "new/file"} not in told:
            told += next_records(watcher)
        assert told[0] == {"type": "create", "name": "new"}, told


def that_a_run_made_are_told(home, name):
    with Keeper(home, name) as looker, Keeper(home, name) as keeper:
        keeper.call(FILE_MAKE, path="/tmp/work")
        looker.begin(FILE_CHANGES, path="/tmp/work")
        assert next_records(looker) == [{"change": "ready"}]
        keeper.run("open('/tmp/work/made', 'w').write('x')")
        looker.send(EOF, STDIN)
        made = json.loads(looker.finish()[0][RESULTS][4:])
        assert (made["change"], made["path"], made["size"]) == ("created", "/tmp/work/made", 1)


if __name__ == "__main__":
    globals()[sys.argv[3]](*sys.argv[1:3])
