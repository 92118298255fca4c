"""Commands that go on without their client: list, attach, signal, input. Needs root."""
import os
import signal
import time
import unittest

from agent_harness import (EXEC, PROCESS_ATTACH, PROCESS_INPUT, PROCESS_LIST, PROCESS_SIGNAL,
                           STDERR, STDOUT, WINDOW, Agent, default_binary)

TAIL = 64 * 1024
LEFT = {"detach": 1, "cancel": 1}  # what a keeper sends when a client goes away


class ProcessTest(unittest.TestCase):
    def setUp(self):
        self.agent = Agent(default_binary())
        self.addCleanup(self.agent.stop)

    def keep(self, script, **fields):
        """A kept command that runs."""
        operation = self.agent.open(EXEC, arg=["sh", "-c", script], keep=1, **fields)
        self.agent.pump_until(lambda: operation.pid is not None or operation.end is not None)
        return operation

    def background(self, script, **fields):
        """The process id of a kept command that nobody is connected to."""
        operation = self.keep(script, **fields)
        operation.control(detach=1)
        operation.wait()
        return operation.pid

    def attach(self, pid):
        operation = self.agent.open(PROCESS_ATTACH, pid=pid)
        self.agent.pump_until(lambda: operation.event is not None or operation.end is not None)
        return operation

    def list(self):
        listing = self.agent.open(PROCESS_LIST)
        self.assertNotIn("verdict", listing.wait())
        return listing.records()

    def find(self, pid):
        found = [record for record in self.list() if record["pid"] == pid]
        return found[0] if found else None

    def feed(self, pid, data, **fields):
        feeder = self.agent.open(PROCESS_INPUT, pid=pid, **fields)
        feeder.send(data)
        feeder.eof()
        return feeder.wait()

    def until(self, operation, text):
        self.agent.pump_until(lambda: text in operation.stdout)

    def until_printed(self, pid, count):
        deadline = time.monotonic() + 20
        while self.find(pid)["output_bytes"] != count:
            self.assertLess(time.monotonic(), deadline, "it did not print that much")

    def ended(self, pid):
        """Waits for the end of a command; its fields."""
        watcher = self.attach(pid)
        return watcher.wait()

    def sh(self, script):
        return self.agent.execute("sh", "-c", script).stdout.decode()


class Listing(ProcessTest):
    def test_everything_that_runs_is_listed(self):
        plain = self.agent.open(EXEC, arg=["sleep", "60"], cwd="/usr", env=["SECRET=x"])
        terminal = self.keep("sleep 60", pty=1, rows=30, cols=90)
        self.agent.pump_until(lambda: plain.pid)
        before = time.time() * 1e6
        first, second = self.list()
        self.assertEqual((first["pid"], first["args"], first["cwd"], first["user"]),
                         (plain.pid, ["sleep", "60"], "/usr", "root"))
        self.assertEqual((first["terminal"], first["kept"], first["clients"], first["state"]),
                         (False, False, 1, "running"))
        self.assertLess(first["started_us"], before)
        self.assertNotIn("SECRET", str(first))
        self.assertEqual((second["pid"], second["rows"], second["cols"], second["kept"]),
                         (terminal.pid, 30, 90, True))
        plain.control(cancel=1)
        plain.wait()
        self.assertIsNone(self.find(plain.pid))

    def test_long_and_odd_arguments_are_cut_and_clean(self):
        operation = self.agent.open(EXEC, arg=["sh", "-c", "read x", "\x01\"", "y" * 100_000])
        self.agent.pump_until(lambda: operation.pid)
        arguments = self.find(operation.pid)["args"]
        self.assertEqual(arguments[:4], ["sh", "-c", "read x", "\x01\""])
        self.assertLessEqual(sum(map(len, arguments)), 1024)

    def test_a_list_waits_for_credit(self):
        script = "read x; " + "#" * 900
        running = [self.agent.open(EXEC, arg=["sh", "-c", script]) for _ in range(300)]
        self.agent.pump_until(lambda: all(operation.pid for operation in running))
        listing = self.agent.open(PROCESS_LIST)
        listing.auto_credit = False
        self.agent.pump_until(lambda: listing.received == WINDOW)
        with self.assertRaises(TimeoutError):
            self.agent.pump_until(lambda: listing.end, 0.2)
        listing.auto_credit = True
        listing.credit(WINDOW)
        listing.wait()
        self.assertEqual([record["pid"] for record in listing.records()],
                         [operation.pid for operation in running])


class Keeping(ProcessTest):
    def test_a_client_that_leaves_ends_what_is_not_kept(self):
        plain = self.agent.open(EXEC, arg=["sleep", "60"])
        self.agent.pump_until(lambda: plain.pid)
        plain.control(**LEFT)
        self.assertEqual(plain.wait()["verdict"], "cancelled")
        self.assertEqual(self.list(), [])

    def test_a_detach_of_what_is_not_kept_ends_it(self):
        plain = self.agent.open(EXEC, arg=["sleep", "60"])
        plain.control(detach=1)
        self.assertEqual(plain.wait()["verdict"], "cancelled")

    def test_a_client_that_leaves_does_not_end_what_is_kept(self):
        kept = self.keep("echo before; read line; echo after $line")
        kept.control(**LEFT)
        self.assertNotIn("verdict", kept.wait())
        again = self.attach(kept.pid)
        self.until(again, b"before\n")
        again.send(b"me\n")
        self.assertEqual(again.wait()["verdict"], "exited")
        self.assertEqual(again.stdout, b"before\nafter me\n")
        self.assertNotIn("output_bytes", again.end)

    def test_a_cancel_ends_what_is_kept_for_everybody(self):
        kept = self.keep("sleep 60 & sleep 60")
        viewer = self.attach(kept.pid)
        kept.control(cancel=1)
        self.assertEqual((kept.wait()["verdict"], viewer.wait()["verdict"]),
                         ("cancelled", "cancelled"))
        self.assertEqual(self.find(kept.pid)["verdict"], "cancelled")
        self.assertNotIn("sleep 60", self.sh("sleep 0.1; ps -e -o args="))

    def test_nobody_slows_down_what_nobody_sees(self):
        pid = self.background("head -c 20000000 /dev/zero; echo end")
        self.until_printed(pid, 20000004)
        late = self.attach(pid)
        late.wait()
        self.assertEqual((late.end["output_bytes"], len(late.stdout)), (20000004, TAIL))
        self.assertTrue(late.stdout.endswith(b"\0end\n"))

    def test_the_one_who_started_it_slows_it_down_until_it_leaves(self):
        kept = self.agent.open(EXEC, arg=["head", "-c", "5000000", "/dev/zero"], keep=1)
        kept.auto_credit = False
        self.agent.pump_until(lambda: kept.received == WINDOW)
        self.assertEqual(self.find(kept.pid)["state"], "running")
        kept.control(**LEFT)
        kept.wait()
        self.assertEqual(self.ended(kept.pid)["output_bytes"], 5000000)

    def test_a_time_limit_holds_without_a_client(self):
        pid = self.background("echo begun; sleep 60", timeout_ms=300)
        viewer = self.attach(pid)
        self.assertEqual(viewer.wait()["verdict"], "timeout")
        self.assertEqual(viewer.stdout, b"begun\n")

    def test_what_cannot_start_is_not_kept(self):
        failed = self.agent.execute("/no/such", keep=1)
        self.assertEqual((failed.end["verdict"], failed.end["exit_code"]), ("error", 127))
        self.assertEqual(self.list(), [])

    def test_ended_ones_are_known_up_to_a_bound(self):
        pids = []
        for number in range(300):
            kept = self.agent.execute("sh", "-c", f"echo {number}; exit {number % 100}", keep=1)
            pids.append(kept.pid)
        known = self.list()
        self.assertEqual([record["pid"] for record in known], pids[-64:])
        self.assertEqual({record["state"] for record in known}, {"ended"})
        late = self.attach(pids[-1])
        late.wait()
        self.assertEqual((late.stdout, late.end["exit_code"]), (b"299\n", 99))
        self.assertEqual(self.attach(pids[0]).end["error_code"], "not_found")

    def reuse(self, pid):
        """A command that gets this process id."""
        self.sh(f"echo {pid - 1} > /proc/sys/kernel/ns_last_pid")
        again = self.keep("echo second; read x")
        self.assertEqual(again.pid, pid)
        return again

    @unittest.skipUnless(os.path.exists("/proc/sys/kernel/ns_last_pid"), "needs ns_last_pid")
    def test_a_process_id_means_the_last_command_that_had_it(self):
        first = self.agent.execute("echo", "first", keep=1)
        self.reuse(first.pid)
        viewer = self.attach(first.pid)
        self.until(viewer, b"second\n")
        self.assertEqual(len(self.list()), 1)

    @unittest.skipUnless(os.path.exists("/proc/sys/kernel/ns_last_pid"), "needs ns_last_pid")
    def test_a_process_id_is_used_again_while_output_is_under_way(self):
        first = self.agent.open(EXEC, arg=["head", "-c", str(WINDOW + 1000), "/dev/zero"], keep=1)
        first.auto_credit = False
        self.agent.pump_until(lambda: first.received == WINDOW)
        deadline = time.monotonic() + 20
        while str(first.pid) in self.sh("ps -e -o pid=").split():
            self.assertLess(time.monotonic(), deadline, "it did not end")
        second = self.reuse(first.pid)
        first.credit(WINDOW)
        self.assertEqual((first.wait()["exit_code"], first.received), (0, WINDOW + 1000))
        viewer = self.attach(second.pid)
        self.until(viewer, b"second\n")

    def test_a_long_runner_is_still_known_after_its_end(self):
        pid = self.background("cat >/dev/null; echo done")
        for _ in range(70):
            self.agent.execute("true", keep=1)
        self.assertNotIn("verdict", self.feed(pid, b"\n", close=1))
        self.assertEqual(self.ended(pid)["exit_code"], 0)
        self.assertEqual(len(self.list()), 64)

    def test_running_ones_are_bounded(self):
        operations = [self.agent.open(EXEC, arg=["sleep", "60"], keep=1) for _ in range(257)]
        refused = operations[-1].wait()
        self.assertEqual((refused["error_code"], "hint" in refused), ("limit", True))
        for operation in operations[:-1]:
            operation.control(cancel=1)
            operation.wait()


class Attaching(ProcessTest):
    def test_unknown_commands(self):
        for pid in (1, 0, 2 ** 63, 99999):
            for operation in (PROCESS_ATTACH, PROCESS_SIGNAL, PROCESS_INPUT):
                ended = self.agent.open(operation, pid=pid, signal=9).wait()
                self.assertEqual((ended["error_code"], "hint" in ended), ("not_found", True))

    def test_a_process_that_is_no_command_is_unknown(self):
        kept = self.keep("sleep 60 & echo $!; wait")
        self.until(kept, b"\n")
        child = int(kept.stdout)
        self.assertEqual(self.agent.open(PROCESS_SIGNAL, pid=child, signal=9).wait()["error_code"],
                         "not_found")

    def test_channels_stay_apart(self):
        pid = self.background("for i in 1 2 3; do echo o$i; sleep 0.05; echo e$i >&2; sleep 0.05; done")
        self.ended(pid)
        again = self.attach(pid)
        again.wait()
        self.assertEqual(again.pieces, [(channel, b"%s%d\n" % (letter, i)) for i in (1, 2, 3)
                                        for channel, letter in ((STDOUT, b"o"), (STDERR, b"e"))])

    def test_several_at_once_see_everything_and_may_type(self):
        pid = self.background("echo hello; while read line; do echo got $line; done")
        one, two = self.attach(pid), self.attach(pid)
        one.send(b"a\n")
        self.until(two, b"got a\n")
        two.send(b"b\n")
        self.until(one, b"got b\n")
        self.assertEqual(self.find(pid)["clients"], 2)
        one.control(**LEFT)
        self.assertNotIn("verdict", one.wait())
        two.send(b"c\n")
        two.eof()
        self.assertEqual(two.wait()["exit_code"], 0)
        self.assertEqual(two.stdout, b"hello\ngot a\ngot b\ngot c\n")

    def test_the_one_who_started_it_and_one_who_came_see_the_same(self):
        kept = self.keep("read x; seq 100000; seq 10 >&2")
        viewer = self.attach(kept.pid)
        kept.send(b"\n")
        kept.wait()
        viewer.wait()
        self.assertEqual(viewer.end["verdict"], "exited")
        self.assertEqual((len(kept.stdout), kept.stderr), (588895, viewer.stderr))

    def test_what_is_not_kept_can_be_watched_from_now_on(self):
        plain = self.agent.open(EXEC, arg=["sh", "-c", "echo a; read x; echo b; exit 3"])
        self.until(plain, b"a\n")
        viewer = self.attach(plain.pid)
        self.assertEqual(viewer.event["offset"], 2)
        viewer.send(b"\n")
        self.assertEqual((plain.wait()["exit_code"], viewer.wait()["exit_code"]), (3, 3))
        self.assertEqual((viewer.stdout, viewer.end["output_bytes"]), (b"b\n", 4))
        self.assertEqual(self.list(), [])

    def test_a_slow_watcher_misses_bytes_and_stops_nobody(self):
        pid = self.background("read x; seq 400000; read x")
        slow, quick = self.attach(pid), self.attach(pid)
        slow.auto_credit = False
        quick.send(b"\n")
        total = len(b"".join(b"%d\n" % i for i in range(1, 400001)))
        self.until_printed(pid, total)
        self.assertEqual(slow.received, WINDOW)
        quick.send(b"\n")
        self.assertEqual(quick.wait()["exit_code"], 0)
        self.assertIsNone(slow.end)
        slow.auto_credit = True
        slow.credit(WINDOW)
        self.assertEqual(slow.wait()["output_bytes"], total)
        self.assertEqual(len(slow.stdout), WINDOW + TAIL)
        self.assertTrue(slow.stdout.endswith(b"\n399999\n400000\n"))

    def test_a_slow_watcher_of_what_was_forgotten_is_let_go(self):
        pid = self.background("head -c 500000 /dev/zero; read x")
        slow = self.attach(pid)
        slow.auto_credit = False
        for _ in range(5):
            self.attach(pid).control(detach=1)
        self.until_printed(pid, 500000)
        again = self.attach(pid)
        again.send(b"\n")
        again.wait()
        for _ in range(64):
            self.agent.execute("true", keep=1)
        slow.wait()
        self.assertEqual(slow.end["verdict"], "exited")

    def test_a_watcher_that_leaves_frees_what_is_not_kept(self):
        plain = self.agent.open(EXEC, arg=["sh", "-c", "read x; head -c 1000000 /dev/zero"])
        self.agent.pump_until(lambda: plain.pid)
        viewer = self.attach(plain.pid)
        viewer.auto_credit = False
        plain.send(b"\n")
        plain.wait()
        self.assertEqual(self.find(plain.pid)["state"], "ended")
        viewer.control(**LEFT)
        viewer.wait()
        self.assertEqual(self.list(), [])

    def test_input_that_nobody_reads_stops_only_its_sender(self):
        pid = self.background("sleep 60")
        stuck, other = self.attach(pid), self.attach(pid)
        stuck.send(bytes(WINDOW))
        self.assertEqual(stuck.send_credit, 0)
        other.control(signal=signal.SIGTERM)
        self.assertEqual((stuck.wait()["signal"], other.wait()["signal"]), (15, 15))


class Signals(ProcessTest):
    def test_signals_reach_the_command(self):
        pid = self.background("trap 'echo caught; exit 4' USR1; echo ready; while :; do sleep 0.05; done")
        viewer = self.attach(pid)
        self.until(viewer, b"ready\n")
        self.assertNotIn("verdict", self.agent.open(PROCESS_SIGNAL, pid=pid, signal=10).wait())
        self.assertEqual(viewer.wait()["exit_code"], 4)
        self.assertEqual(viewer.stdout, b"ready\ncaught\n")
        ended = self.agent.open(PROCESS_SIGNAL, pid=pid, signal=10).wait()
        self.assertEqual(ended["error_code"], "not_found")

    def test_what_is_no_signal_is_refused(self):
        pid = self.background("sleep 60")
        for number in (0, 65, 2 ** 64 - 1):
            ended = self.agent.open(PROCESS_SIGNAL, pid=pid, signal=number).wait()
            self.assertEqual(ended["error_code"], "invalid")
        self.assertNotIn("verdict", self.agent.open(PROCESS_SIGNAL, pid=pid, signal=64).wait())
        self.assertEqual(self.ended(pid)["signal"], 64)


class Input(ProcessTest):
    def test_input_arrives_whole_and_close_ends_it(self):
        data = os.urandom(3_000_000)
        pid = self.background("cat > /run/whole; echo $(wc -c < /run/whole)")
        self.assertNotIn("verdict", self.feed(pid, data[:1_000_000]))
        self.assertEqual(self.find(pid)["state"], "running")
        self.assertNotIn("verdict", self.feed(pid, data[1_000_000:], close=1))
        viewer = self.attach(pid)
        viewer.wait()
        self.assertEqual(viewer.stdout, b"3000000\n")
        self.assertEqual(self.agent.execute("cat", "/run/whole").stdout, data)

    def test_a_closed_stdin_takes_no_more(self):
        pid = self.background("cat; sleep 60")
        self.assertNotIn("verdict", self.feed(pid, b"", close=1))
        refused = self.feed(pid, b"x")
        self.assertEqual((refused["error_code"], "hint" in refused), ("unavailable", True))

    def test_a_command_that_ends_early_is_told(self):
        pid = self.background("sleep 0.3")
        self.assertEqual(self.feed(pid, bytes(WINDOW))["error_code"], "unavailable")
        pid = self.background("exec <&-; sleep 5")
        self.assertEqual(self.feed(pid, bytes(WINDOW))["error_code"], "unavailable")

    def test_a_feeder_that_leaves_changes_nothing(self):
        pid = self.background("cat > /dev/null")
        feeder = self.agent.open(PROCESS_INPUT, pid=pid, close=1)
        feeder.send(b"x")
        feeder.control(**LEFT)
        self.assertNotIn("verdict", feeder.wait())
        self.assertEqual(self.find(pid)["state"], "running")

    def test_a_feeder_alone_sees_no_output(self):
        pid = self.background("cat")
        feeder = self.agent.open(PROCESS_INPUT, pid=pid)
        feeder.send(b"hello\n")
        viewer = self.attach(pid)
        self.until(viewer, b"hello\n")
        feeder.eof()
        feeder.wait()
        self.assertEqual((feeder.stdout, feeder.event), (b"", None))


class Terminals(ProcessTest):
    def test_the_last_lines_come_back_whole(self):
        pid = self.background("seq -f %012.0f 80000; read x", pty=1)
        size = 80000 * 14
        self.until_printed(pid, size)
        viewer = self.attach(pid)
        self.assertEqual((viewer.event["pty"], viewer.event["rows"], viewer.event["cols"]), (1, 24, 80))
        self.until(viewer, b"000000080000\r\n")
        lines = viewer.stdout.split(b"\r\n")
        first = int(lines[0])
        self.assertEqual(lines, [b"%012d" % i for i in range(first, 80001)] + [b""])
        self.assertLessEqual(len(viewer.stdout), TAIL)
        self.assertGreater(len(viewer.stdout), TAIL - 14)
        self.assertEqual(viewer.event["offset"], size - len(viewer.stdout))

    def test_whoever_is_attached_resizes_and_types(self):
        kept = self.keep("echo ready; while read x; do stty size; done", pty=1, rows=20, cols=50)
        self.until(kept, b"ready")
        kept.control(**LEFT)
        kept.wait()
        viewer = self.attach(kept.pid)
        viewer.send(b"\n")
        self.until(viewer, b"20 50")
        viewer.control(rows=44, cols=133)
        viewer.send(b"\n")
        self.until(viewer, b"44 133")
        record = self.find(kept.pid)
        self.assertEqual((record["rows"], record["cols"]), (44, 133))
        viewer.send(b"\x03")
        self.assertEqual(viewer.wait()["signal"], signal.SIGINT)

    def test_control_d_ends_a_shell(self):
        pid = self.background("exec sh", pty=1)
        viewer = self.attach(pid)
        viewer.send(b"echo $((6*7))\n")
        self.until(viewer, b"42")
        viewer.eof()
        self.assertEqual(viewer.wait()["verdict"], "exited")

    def test_input_closes_a_terminal_only_when_asked(self):
        pid = self.background("cat; echo over", pty=1)
        viewer = self.attach(pid)
        self.assertNotIn("verdict", self.feed(pid, b"typed\n"))
        self.until(viewer, b"typed\r\ntyped\r\n")
        self.assertEqual(self.find(pid)["state"], "running")
        self.assertNotIn("verdict", self.feed(pid, b"", close=1))
        viewer.wait()
        self.assertTrue(viewer.stdout.endswith(b"over\r\n"))

    def test_signals_reach_the_foreground(self):
        pid = self.background("trap 'echo caught' INT; sh -c 'echo ready; exec sleep 60'; echo went on", pty=1)
        viewer = self.attach(pid)
        self.until(viewer, b"ready")
        self.agent.open(PROCESS_SIGNAL, pid=pid, signal=signal.SIGINT).wait()
        self.assertEqual(viewer.wait()["exit_code"], 0)
        self.assertIn(b"went on", viewer.stdout)


class Leftovers(ProcessTest):
    def descriptors(self):
        return len(os.listdir(f"/proc/{self.agent_pid()}/fd"))

    def agent_pid(self):
        children = f"/proc/{self.agent.process.pid}/task/{self.agent.process.pid}/children"
        with open(children, encoding="ascii") as file:
            return int(file.read().split()[0])

    def round(self):
        pid = self.background("cat; echo x >&2")
        viewer = self.attach(pid)
        self.feed(pid, b"y", close=1)
        viewer.wait()
        terminal = self.keep("read x", pty=1)
        other = self.attach(terminal.pid)
        terminal.control(cancel=1)
        terminal.wait()
        other.wait()

    def test_no_descriptors_and_no_processes_stay(self):
        self.round()
        self.sh("sleep 0.1")
        before = self.descriptors()
        for _ in range(20):
            self.round()
        self.sh("sleep 0.1")
        self.assertEqual(self.descriptors(), before)
        rows = self.sh("ps -e -o args=").splitlines()
        self.assertEqual([row for row in rows if "cat" in row or "read" in row], [])

    def test_the_agent_ends_with_everything(self):
        marker = "61.%d" % os.getpid()
        self.background(f"sleep {marker}")
        self.agent.stop()
        found = [entry for entry in os.listdir("/proc") if entry.isdigit() and self.runs(entry, marker)]
        self.assertEqual(found, [])

    @staticmethod
    def runs(entry, marker):
        try:
            with open(f"/proc/{entry}/cmdline", "rb") as file:
                return file.read().split(b"\0")[:2] == [b"sleep", marker.encode()]
        except OSError:
            return False


if __name__ == "__main__":
    unittest.main()
