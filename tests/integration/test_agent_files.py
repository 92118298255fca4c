"""Properties of the agent's file operations, tried on the real binary. Needs root."""
import os
import tempfile
import time

from agent_harness import (ADOPT, FILE_COPY, FILE_LIST, FILE_MAKE, FILE_READ, FILE_REMOVE,
                           FILE_RENAME, FILE_STAT, FILE_WRITE, RESULTS, STDOUT, WINDOW)
from test_agent import AgentTest


class FileTest(AgentTest):
    """Everything happens below /run, which only the agent's world has."""

    def do(self, operation, path, **fields):
        done = self.agent.open(operation, path=path, **fields)
        done.wait()
        return done

    def write(self, path, data, **fields):
        writing = self.agent.open(FILE_WRITE, path=path, **fields)
        writing.send(data)
        writing.eof()
        return writing.wait()

    def read(self, path, **fields):
        done = self.do(FILE_READ, path, **fields)
        self.assert_done(done.end)
        return bytes(done.stdout)

    def stat(self, path, **fields):
        return self.do(FILE_STAT, path, **fields).records()[0]

    def paths(self, path, **fields):
        done = self.do(FILE_LIST, path, **fields)
        self.assert_done(done.end)
        return [entry["path"] for entry in done.records()]

    def assert_done(self, end):
        self.assertNotIn("verdict", end, end)

    def assert_fails(self, end, code, part=""):
        self.assertEqual((end.get("verdict"), end.get("error_code")), ("error", code), end)
        self.assertIn(part, end["message"])


class Beneath(FileTest):
    """What is to lie below the working folder does, whatever links say."""

    INSIDE = {"cwd": "/run/data", "beneath": 1}

    def setUp(self):
        super().setUp()
        self.write("/run/data/sub/file", b"inside", parents=1)
        self.write("/run/secret", b"outside")
        self.sh("ln -s /run/secret /run/data/absolute; ln -s ../secret /run/data/relative; "
                "ln -s /run /run/data/folder; ln -s sub/file /run/data/fine")

    def test_what_is_inside_can_be_had(self):
        for path in "sub/file", "./sub//./file":
            self.assertEqual(self.read(path, **self.INSIDE), b"inside")
        self.assertEqual(self.stat("sub/file", **self.INSIDE)["size"], 6)
        self.assertEqual(self.stat("absolute", **self.INSIDE)["type"], "link")
        self.assertEqual(self.paths("sub", **self.INSIDE), ["sub/file"])
        self.assertIn("./sub", self.paths(".", **self.INSIDE))

    def test_nothing_leads_out(self):
        for path in ("/run/secret", "../secret", "sub/../../secret", "absolute", "relative",
                     "folder/secret", "fine", "/run/data/sub/file", "sub/../sub/file", "/proc/self/root/run/secret"):
            with self.subTest(path=path):
                self.assertEqual(self.do(FILE_READ, path, **self.INSIDE).end["verdict"], "error")
        for path in "folder/secret", "../secret":
            self.assertEqual(self.do(FILE_STAT, path, **self.INSIDE).end["verdict"], "error")
        for path in "folder", "..", "/":
            self.assertEqual(self.do(FILE_LIST, path, **self.INSIDE).end["verdict"], "error")


class Contents(FileTest):
    def test_contents_come_back_whole(self):
        for size in 0, 1, 65536, WINDOW + 1, 5_000_000:
            data = os.urandom(size)
            self.assert_done(self.write("/run/file", data))
            self.assertEqual(self.read("/run/file"), data)

    def test_ranges(self):
        self.write("/run/file", b"0123456789")
        self.assertEqual(self.read("/run/file", offset=3), b"3456789")
        self.assertEqual(self.read("/run/file", offset=3, length=4), b"3456")
        self.assertEqual(self.read("/run/file", length=2), b"01")
        self.assertEqual(self.read("/run/file", length=0), b"")
        self.assertEqual(self.read("/run/file", offset=8, length=100), b"89")
        self.assertEqual(self.read("/run/file", offset=1 << 40), b"")

    def test_files_without_a_size_are_read_to_their_end(self):
        self.assertIn(b"Pid:", self.read("/proc/self/status"))
        self.assertEqual(self.read("/dev/zero", length=100_000), bytes(100_000))

    def test_append_adds_to_the_end_and_makes_the_file(self):
        self.assert_done(self.write("/run/log", b"one\n", append=1, mode=0o600))
        self.assert_done(self.write("/run/log", b"two\n", append=1))
        self.assertEqual(self.read("/run/log"), b"one\ntwo\n")
        self.assertEqual(self.stat("/run/log")["mode"], 0o600)

    def test_a_reader_never_sees_half(self):
        self.write("/run/file", b"old" * 1000)
        writing = self.agent.open(FILE_WRITE, path="/run/file")
        writing.send(b"new" * 500_000)
        self.assertEqual(self.read("/run/file"), b"old" * 1000)
        writing.send(b"new" * 500_000)
        writing.eof()
        self.assert_done(writing.wait())
        self.assertEqual(self.read("/run/file"), b"new" * 1_000_000)
        self.assertEqual(self.sh("ls -A /run | grep msb-").stdout, b"")

    def test_a_cancelled_write_leaves_no_trace(self):
        self.sh("mkdir /run/folder; echo old > /run/folder/file")
        for _ in range(20):
            writing = self.agent.open(FILE_WRITE, path="/run/folder/file")
            writing.send(b"new" * 1000)
            writing.control(cancel=1)
            self.assertEqual(writing.wait()["verdict"], "cancelled")
        self.wait_until(lambda: self.sh("ls -A /run/folder").stdout == b"file\n")
        self.assertEqual(self.read("/run/folder/file"), b"old\n")
        self.wait_until(lambda: not self.processes())

    def test_a_blocked_read_holds_nobody_and_can_be_cancelled(self):
        self.sh("mkfifo /run/pipe")
        blocked = self.agent.open(FILE_READ, path="/run/pipe")
        self.assert_done(self.write("/run/file", b"x"))
        blocked.control(cancel=1)
        self.assertEqual(blocked.wait()["verdict"], "cancelled")
        self.wait_until(lambda: not self.processes())

    def test_reading_waits_for_credit(self):
        self.sh("head -c 1000000 /dev/zero > /run/file")
        reading = self.agent.open(FILE_READ, path="/run/file")
        reading.auto_credit = False
        self.agent.pump_until(lambda: reading.received == WINDOW)
        with self.assertRaises(TimeoutError):
            self.agent.pump_until(lambda: reading.received > WINDOW, 0.3)
        reading.auto_credit = True
        reading.credit(WINDOW)
        self.assert_done(reading.wait())
        self.assertEqual(len(reading.stdout), 1000000)

    def test_large_files_pass_without_being_held(self):
        piece = os.urandom(1_000_000)
        writing = self.agent.open(FILE_WRITE, path="/run/large")
        for _ in range(200):
            writing.send(piece)
        writing.eof()
        self.assert_done(writing.wait(60))
        self.assertEqual(self.stat("/run/large")["size"], 200_000_000)
        reading = self.agent.open(FILE_READ, path="/run/large")

        def ended():
            reading.output[STDOUT].clear()
            reading.pieces.clear()
            return reading.end is not None
        self.agent.pump_until(ended, 60)
        self.assertEqual(reading.received, 200_000_000)
        self.sh("rm /run/large")
        peak = self.sh("sed -n 's/VmHWM: *//p' /proc/1/status").stdout
        self.assertLess(int(peak.split()[0]), 16_000)

    def test_a_full_disk_is_told(self):
        self.sh("mkdir /run/small; mount -t tmpfs -o size=1m tmpfs /run/small")
        self.assert_fails(self.write("/run/small/file", bytes(3_000_000)), "no_space", "small/file")
        self.assertEqual(self.sh("ls -A /run/small").stdout, b"")


class Looks(FileTest):
    def test_modes(self):
        self.write("/run/plain", b"")
        self.write("/run/secret", b"", mode=0o600)
        self.write("/run/tool", b"#!/bin/sh\necho ran\n", mode=0o777)
        modes = [self.stat("/run/" + name)["mode"] for name in ("plain", "secret", "tool")]
        self.assertEqual(modes, [0o644, 0o600, 0o777])
        self.assertEqual(self.sh("/run/tool").stdout, b"ran\n")
        self.assert_fails(self.write("/run/odd", b"", mode=0o100644), "invalid")

    def test_a_replaced_file_keeps_mode_and_owner_but_not_setuid(self):
        self.sh("echo old > /run/file; chown nobody /run/file; chmod 4750 /run/file")
        self.write("/run/file", b"new")
        entry = self.stat("/run/file")
        self.assertEqual((entry["mode"], entry["user"]), (0o750, "nobody"))

    def test_owner_is_the_user_who_acts(self):
        self.assert_done(self.write("/run/a/b/file", b"x", user="nobody", parents=1))
        for path in "/run/a", "/run/a/b", "/run/a/b/file":
            entry = self.stat(path)
            self.assertEqual((entry["user"], entry["uid"], entry["gid"]), ("nobody", 65534, 65534))
        self.assert_done(self.write("/run/number", b"x", user="4242"))
        self.assertEqual((self.stat("/run/number")["uid"], self.stat("/run/number")["user"]),
                         (4242, ""))

    def test_the_default_user_and_folder_are_those_of_the_sandbox(self):
        self.agent.open(ADOPT, entropy=bytes(32), user="nobody", cwd="/tmp").wait()
        self.assert_fails(self.do(FILE_READ, "/etc/shadow").end, "denied", "/etc/shadow")
        self.assertEqual(self.do(FILE_LIST, "../run").end.get("verdict"), None)
        self.assertEqual(self.read("../etc/hostname", cwd="/usr"), self.read("/etc/hostname"))

    def test_permission_denied_as_user(self):
        self.sh("mkdir -m 700 /run/private; echo secret > /run/private/file; echo x > /run/roots")
        for operation, path in ((FILE_READ, "/run/private/file"), (FILE_STAT, "/run/private/file"),
                                (FILE_LIST, "/run/private"), (FILE_MAKE, "/run/private/more"),
                                (FILE_REMOVE, "/run/private/file"), (FILE_REMOVE, "/run/roots")):
            self.assert_fails(self.do(operation, path, user="nobody").end, "denied", path)
        self.assert_fails(self.write("/run/roots", b"y", user="nobody"), "denied")
        self.assert_fails(self.write("/run/private/new", b"y", user="nobody"), "denied")
        self.assert_fails(self.do(FILE_COPY, "/run/private/file", target="/run/mine",
                                  user="nobody").end, "denied")
        self.assert_fails(self.do(FILE_RENAME, "/run/roots", target="/run/mine",
                                  user="nobody").end, "denied")
        self.assertEqual(self.read("/run/roots"), b"x\n")
        self.assertEqual(self.sh("ls -A /run | grep -e msb- -e mine").stdout, b"")

    def test_others_of_the_user_cannot_look_into_the_work(self):
        self.sh("mkfifo -m 666 /run/pipe")
        blocked = self.agent.open(FILE_READ, path="/run/pipe", user="nobody")
        self.wait_until(lambda: self.sh("pgrep -u nobody").stdout)
        pid = self.sh("pgrep -u nobody").stdout.decode().strip()
        for name in "fd", "mem", "environ":
            looking = self.sh(f"cat /proc/{pid}/{name}/* /proc/{pid}/{name} | head -c 1", user="nobody")
            self.assertEqual(looking.stdout, b"")
            self.assertIn(b"Permission denied", looking.stderr)
        blocked.control(cancel=1)
        self.assertEqual(blocked.wait()["verdict"], "cancelled")

    def test_a_file_that_may_not_be_written_is_not_replaced_either(self):
        self.sh("mkdir /run/theirs; echo x > /run/theirs/file; chown nobody /run/theirs")
        self.assert_fails(self.write("/run/theirs/file", b"y", user="nobody"), "denied")

    def test_what_is_missing_is_told(self):
        for operation in FILE_READ, FILE_STAT, FILE_LIST, FILE_REMOVE:
            self.assert_fails(self.do(operation, "/run/none").end, "not_found", "/run/none")
        self.assert_fails(self.write("/run/none/file", b""), "not_found")
        self.assert_fails(self.do(FILE_COPY, "/run/none", target="/run/x").end, "not_found")
        self.assert_fails(self.do(FILE_RENAME, "/run/none", target="/run/x").end, "not_found")
        self.assert_fails(self.do(FILE_STAT, "/run", user="nosuchuser").end, "not_found")
        self.assert_fails(self.do(FILE_STAT, "x", cwd="/run/none").end, "not_found", "/run/none")

    def test_what_makes_no_sense_is_refused(self):
        self.assert_fails(self.agent.open(FILE_READ).wait(), "invalid", "no path")
        self.assert_fails(self.do(FILE_READ, "").end, "invalid")
        self.assert_fails(self.do(FILE_READ, b"a\0b").end, "protocol")
        self.assert_fails(self.do(FILE_COPY, "/run").end, "invalid", "no new path")
        self.assert_fails(self.do(FILE_READ, "/run").end, "invalid", "folder")
        self.assert_fails(self.write("/run", b""), "invalid", "folder")
        self.assert_fails(self.do(FILE_LIST, "/etc/hostname").end, "invalid")
        self.assert_fails(self.do(FILE_READ, "/" + "x" * 5000).end, "invalid")

    def test_stat_tells_everything(self):
        self.write("/run/file", b"12345", mode=0o640)
        entry = self.stat("/run/file")
        self.assertLess(abs(entry.pop("mtime_us") / 1e6 - time.time()), 60)
        self.assertEqual(entry, {"name": "file", "path": "/run/file", "type": "file", "size": 5,
                                 "mode": 0o640, "uid": 0, "gid": 0, "user": "root"})
        self.assertEqual(self.stat("/run")["type"], "folder")
        self.assertEqual(self.stat("/")["name"], "/")
        self.assertEqual(self.stat("/dev/null")["type"], "other")

    def test_links(self):
        self.sh("echo old > /run/file; ln -s file /run/link; ln -s nowhere /run/dangling")
        entry = self.stat("/run/link")
        self.assertEqual((entry["type"], entry["target"]), ("link", "file"))
        self.assertEqual(self.read("/run/link"), b"old\n")
        self.assert_done(self.write("/run/link", b"new"))
        self.assertEqual(self.stat("/run/link")["type"], "link")
        self.assertEqual(self.read("/run/file"), b"new")
        self.assertEqual(self.stat("/run/dangling")["target"], "nowhere")
        self.assert_fails(self.do(FILE_READ, "/run/dangling").end, "not_found")
        self.assert_done(self.do(FILE_REMOVE, "/run/link").end)
        self.assertEqual(self.read("/run/file"), b"new")

    def test_devices_are_written_to_and_not_replaced(self):
        self.assert_done(self.write("/dev/null", b"gone"))
        self.assertEqual(self.stat("/dev/null")["type"], "other")


class Sink:
    """Output that is counted elsewhere and not kept."""

    def __iadd__(self, other):
        return self

    def append(self, piece):
        pass


class Streams(FileTest):
    SIZE = 2 << 30
    MEMORY_KIB = 8192

    def assert_memory_is_small(self):
        peaks = self.sh("grep -h VmHWM $(grep -l msb-agent /proc/[0-9]*/status)").stdout.decode()
        sizes = [int(line.split()[1]) for line in peaks.splitlines()]
        self.assertEqual(len(sizes), 2, "the agent and its worker")
        self.assertLess(max(sizes), self.MEMORY_KIB)

    def test_two_gigabytes_are_read_without_holding_them(self):
        self.sh(f"truncate -s {self.SIZE} /run/sparse")
        reading = self.agent.open(FILE_READ, path="/run/sparse")
        reading.output[STDOUT] = reading.pieces = Sink()
        self.agent.pump_until(lambda: reading.received > self.SIZE * 3 // 4, 60)
        self.assert_memory_is_small()
        self.assert_done(reading.wait(60))
        self.assertEqual(reading.received, self.SIZE)

    def test_two_gigabytes_are_written_without_holding_them(self):
        writing = self.agent.open(FILE_WRITE, path="/dev/null")
        for sent in range(0, self.SIZE, WINDOW):
            if sent == self.SIZE * 3 // 4:
                self.assert_memory_is_small()
            writing.send(bytes(WINDOW))
        writing.eof()
        self.assert_done(writing.wait(60))

    def test_a_large_file_comes_back_from_a_disk(self):
        data = os.urandom(9_000_001)
        with tempfile.TemporaryDirectory() as folder:
            self.assert_done(self.write(folder + "/file", data))
            self.assertEqual(self.read(folder + "/file"), data)


class Time(FileTest):
    def test_a_write_that_takes_too_long_leaves_nothing(self):
        self.sh("mkdir /run/w; echo old > /run/w/file")
        writing = self.agent.open(FILE_WRITE, path="/run/w/file", timeout_ms=200)
        writing.send(b"half")
        self.assertEqual(writing.wait()["verdict"], "timeout")
        self.wait_until(lambda: self.paths("/run/w") == ["/run/w/file"])
        self.assertEqual(self.read("/run/w/file"), b"old\n")
        self.wait_until(lambda: self.processes() == [])

    def test_waiting_for_a_pipe_ends_in_time(self):
        self.sh("mkfifo /run/pipe")
        end = self.do(FILE_READ, "/run/pipe", timeout_ms=100).end
        self.assertEqual(end["verdict"], "timeout")
        self.assertGreaterEqual(end["duration_us"], 100_000)
        self.wait_until(lambda: self.processes() == [])

    def test_time_that_is_left_changes_nothing(self):
        self.assert_done(self.do(FILE_STAT, "/run", timeout_ms=20_000).end)


class Folders(FileTest):
    def test_names_are_arbitrary_bytes(self):
        names = [b"with space", b"new\nline", b'quote"back\\slash', "ä€😀".encode(), b"bad\xff\xc3",
                 b"-rf", b"*"]
        for name in names:
            self.assert_done(self.write(b"/run/names/" + name, name, parents=1))
            self.assertEqual(self.read(b"/run/names/" + name), name)
        listed = {entry["name"] for entry in self.do(FILE_LIST, "/run/names").records()}
        self.assertEqual(listed, {name.decode(errors="replace") for name in names})
        self.assert_fails(self.do(FILE_READ, b"/run/no\xff\x1b").end, "not_found", "/run/no??")

    def test_lists_are_sorted_and_as_deep_as_asked(self):
        self.sh("mkdir -p /run/tree/b/c/d; touch /run/tree/a /run/tree/b/x /run/tree/b/c/y; "
                "ln -s / /run/tree/root")
        top = ["/run/tree/a", "/run/tree/b", "/run/tree/root"]
        self.assertEqual(self.paths("/run/tree"), top)
        self.assertEqual(self.paths("/run/tree/", depth=1), top)
        self.assertEqual(self.paths("/run/tree", depth=2),
                         top[:2] + ["/run/tree/b/c", "/run/tree/b/x"] + top[2:])
        self.assertEqual(len(self.paths("/run/tree", depth=1 << 60)), 7)
        self.assertEqual(self.paths("tree", cwd="/run")[0], "tree/a")

    def test_lists_are_bounded(self):
        self.sh("mkdir /run/many; cd /run/many; seq 3000 | xargs touch")
        self.assertEqual(len(self.paths("/run/many")), 3000)
        self.assertEqual(len(self.paths("/run/many", limit=3000)), 3000)
        cut = self.do(FILE_LIST, "/run/many", limit=10)
        self.assert_fails(cut.end, "limit", "more than 10")
        self.assertEqual(len(cut.records()), 10)

    def test_a_list_waits_for_credit(self):
        self.sh("mkdir /run/many; cd /run/many; seq 5000 | xargs touch")
        listing = self.agent.open(FILE_LIST, path="/run/many")
        listing.auto_credit = False
        self.agent.pump_until(lambda: listing.received == WINDOW)
        listing.auto_credit = True
        listing.credit(WINDOW)
        self.assert_done(listing.wait())
        self.assertEqual(len(listing.records()), 5000)
        self.assertGreater(len(listing.output[RESULTS]), WINDOW)

    def test_folders_are_made_with_parents_when_asked(self):
        self.assert_fails(self.do(FILE_MAKE, "/run/a/b").end, "not_found")
        self.assert_done(self.do(FILE_MAKE, "/run/a/b", parents=1, mode=0o700).end)
        self.assertEqual([self.stat(path)["mode"] for path in ("/run/a", "/run/a/b")],
                         [0o755, 0o700])
        self.assert_done(self.do(FILE_MAKE, "/run/a/b", parents=1).end)
        self.assert_fails(self.do(FILE_MAKE, "/run/a/b").end, "exists")
        self.write("/run/file", b"")
        self.assert_fails(self.do(FILE_MAKE, "/run/file", parents=1).end, "exists")

    def test_folders_are_removed_with_contents_only_when_asked(self):
        self.sh("mkdir -p /run/keep /run/tree/b; touch /run/tree/b/x /run/keep/it; "
                "ln -s /run/keep /run/tree/link")
        refused = self.do(FILE_REMOVE, "/run/tree").end
        self.assert_fails(refused, "invalid", "not empty")
        self.assertIn("hint", refused)
        self.assert_done(self.do(FILE_REMOVE, "/run/tree", recursive=1).end)
        self.assert_fails(self.do(FILE_STAT, "/run/tree").end, "not_found")
        self.assertEqual(self.paths("/run/keep"), ["/run/keep/it"])
        self.sh("mkdir /run/empty")
        self.assert_done(self.do(FILE_REMOVE, "/run/empty").end)

    def test_the_root_folder_is_never_removed(self):
        self.sh("mkdir /run/w")
        for path in "/", "//", "/run/..":
            self.assert_fails(self.do(FILE_REMOVE, path, user="nobody", recursive=1).end, "invalid")

    def test_rename(self):
        self.write("/run/one", b"1")
        self.write("/run/two", b"2")
        self.assert_done(self.do(FILE_RENAME, "/run/one", target="/run/two").end)
        self.assertEqual(self.read("/run/two"), b"1")
        self.assert_fails(self.do(FILE_RENAME, "/run/two", target="/run/x/y").end, "not_found")
        self.assert_done(self.do(FILE_RENAME, "/run/two", target="/run/x/y", parents=1).end)
        self.assertEqual(self.read("/run/x/y"), b"1")
        across = self.do(FILE_RENAME, "/run/x/y", target="/dev/shm/y").end
        self.assertIn("copy it", across["hint"])

    def test_copy_of_a_file(self):
        data = os.urandom(3_000_000)
        self.write("/run/one", data, mode=0o751)
        self.assert_done(self.do(FILE_COPY, "/run/one", target="/run/a/two", parents=1).end)
        self.assertEqual(self.read("/run/a/two"), data)
        self.assertEqual(self.stat("/run/a/two")["mode"], 0o751)
        self.assert_fails(self.do(FILE_COPY, "/run/one", target="/run/one").end, "invalid")
        self.assertEqual(self.read("/run/one"), data)
        self.assert_done(self.do(FILE_COPY, "/proc/version", target="/run/version").end)
        self.assertIn(b"Linux", self.read("/run/version"))

    def test_copy_of_a_folder(self):
        self.sh("mkdir -p /run/tree/b; echo x > /run/tree/b/x; ln -s b/x /run/tree/link; "
                "chmod 500 /run/tree/b")
        self.assert_fails(self.do(FILE_COPY, "/run/tree", target="/run/copy").end, "invalid")
        for _ in "once", "over itself":
            self.assert_done(self.do(FILE_COPY, "/run/tree", target="/run/copy", recursive=1).end)
        self.assertEqual(self.read("/run/copy/b/x"), b"x\n")
        self.assertEqual(self.stat("/run/copy/b")["mode"], 0o500)
        self.assertEqual(self.stat("/run/copy/link")["target"], "b/x")
        self.assert_fails(self.do(FILE_COPY, "/run/tree", target="/run/tree/b/c",
                                  recursive=1).end, "invalid", "into itself")

    def test_many_at_once(self):
        running = [self.agent.open(FILE_WRITE, path=f"/run/file{i}") for i in range(200)]
        for i, writing in enumerate(running):
            writing.send(b"%d" % i)
            writing.eof()
        for i, writing in enumerate(running):
            self.assert_done(writing.wait())
            self.assertEqual(self.read(f"/run/file{i}"), b"%d" % i)
