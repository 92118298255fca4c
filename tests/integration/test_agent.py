"""Properties of the agent, tried on the real binary. Needs root for the namespaces."""
import os
import shutil
import signal
import struct
import subprocess
import time
import unittest

from agent_harness import (ADOPT, CREDIT, DATA, EXEC, OPEN, QUIESCE, RUN, SHUTDOWN, STDOUT,
                           WINDOW, Agent, default_binary)


def groups():
    """The cgroups that agents have made on this host."""
    found = subprocess.run(["find", "/sys/fs/cgroup", "-type", "d", "-name", "msb-??????"],
                           capture_output=True, text=True)
    return set(found.stdout.split())


class AgentTest(unittest.TestCase):
    def setUp(self):
        self.agent = Agent(default_binary())
        self.addCleanup(self.agent.stop)

    def sh(self, script, **fields):
        return self.agent.execute("sh", "-c", script, **fields)

    def processes(self):
        """(pid, state, command) of everything in the agent's world, but the one that lists it."""
        listing = self.sh("ps -e -o pid= -o stat= -o args=").stdout.decode()
        rows = [line.split(None, 2) for line in listing.splitlines()]
        return [row for row in rows if int(row[0]) > 1 and "ps -e" not in row[2]]

    def wait_until(self, condition, seconds=5):
        deadline = time.monotonic() + seconds
        while not condition():
            self.assertLess(time.monotonic(), deadline, "it did not happen in time")


class Commands(AgentTest):
    def test_hello_names_version_and_kernel(self):
        self.assertEqual(self.agent.hello, {"version": 1, "kernel": os.uname().release})

    def test_stdout_and_stderr_stay_apart(self):
        done = self.sh("echo out; echo err >&2")
        self.assertEqual((done.stdout, done.stderr), (b"out\n", b"err\n"))
        self.assertEqual((done.end["verdict"], done.end["exit_code"]), ("exited", 0))
        self.assertGreater(done.pid, 1)
        self.assertGreater(done.end["duration_us"], 0)

    def test_exit_codes_and_signals_are_told(self):
        self.assertEqual(self.sh("exit 7").end["exit_code"], 7)
        ended = self.sh("kill -9 $$").end
        self.assertEqual((ended["verdict"], ended["signal"]), ("signaled", 9))

    def test_tail_of_output_is_never_lost(self):
        for _ in range(50):
            done = self.agent.execute("head", "-c", "300000", "/dev/zero")
            self.assertEqual(len(done.stdout), 300000)

    def test_stdin_comes_back_whole(self):
        data = os.urandom(5_000_000)
        self.assertEqual(self.agent.execute("cat", stdin=data).stdout, data)

    def test_stdin_nobody_reads_stops_the_sender(self):
        slow = self.agent.open(EXEC, arg=["sleep", "30"])
        with self.assertRaises(TimeoutError):
            original = self.agent.pump_until
            self.agent.pump_until = lambda condition, timeout=1: original(condition, timeout)
            slow.send(bytes(4 * WINDOW))
        self.agent.pump_until = original
        slow.control(cancel=1)
        self.assertEqual(slow.wait()["verdict"], "cancelled")

    def test_stdin_that_was_closed_is_thrown_away(self):
        done = self.agent.execute("sh", "-c", "exec <&-; sleep 0.3; echo ok", stdin=bytes(3_000_000))
        self.assertEqual(done.stdout, b"ok\n")

    def test_output_waits_for_credit(self):
        loud = self.agent.open(EXEC, arg=["head", "-c", "1000000", "/dev/zero"])
        loud.auto_credit = False
        self.agent.pump_until(lambda: loud.received == WINDOW)
        with self.assertRaises(TimeoutError):
            self.agent.pump_until(lambda: loud.received > WINDOW, 0.3)
        loud.auto_credit = True
        loud.credit(WINDOW)
        self.assertEqual(loud.wait()["exit_code"], 0)
        self.assertEqual(len(loud.stdout), 1000000)

    def test_a_loud_command_does_not_starve_others(self):
        loud = self.agent.open(EXEC, arg=["cat", "/dev/zero"])
        began = time.monotonic()
        self.assertEqual(self.sh("echo hi").stdout, b"hi\n")
        self.assertLess(time.monotonic() - began, 2)
        loud.control(cancel=1)
        self.assertEqual(loud.wait()["verdict"], "cancelled")

    def test_many_at_once(self):
        running = [self.agent.open(EXEC, arg=["sh", "-c", f"echo {i}; exit {i % 200}"])
                   for i in range(200)]
        for i, operation in enumerate(running):
            self.assertEqual(operation.wait()["exit_code"], i % 200)
            self.assertEqual(operation.stdout, b"%d\n" % i)

    def test_more_than_the_allowed_streams_is_an_error(self):
        running = [self.agent.open(EXEC, arg=["sleep", "60"]) for _ in range(3)]
        waiting = [self.agent.open(RUN, language="python") for _ in range(1022)]
        self.assertEqual(waiting[-1].wait()["error_code"], "limit")
        for operation in running:
            operation.control(cancel=1)
            operation.wait()

    def test_unknown_program(self):
        ended = self.agent.execute("no-such-program").end
        self.assertEqual((ended["verdict"], ended["error_code"]), ("error", "not_found"))
        self.assertEqual(ended["exit_code"], 127)
        self.assertIn("no-such-program", ended["message"])
        self.assertIn("hint", ended)

    def test_program_that_may_not_run(self):
        ended = self.agent.execute("/etc/passwd").end
        self.assertEqual((ended["error_code"], ended["exit_code"]), ("denied", 126))

    def test_script_without_interpreter_is_explained(self):
        self.sh("printf '#!/no/such\\n' > /run/script; chmod +x /run/script")
        ended = self.agent.execute("/run/script").end
        self.assertIn("what it needs to run", ended["message"])

    def test_no_program_and_unknown_operation(self):
        self.assertEqual(self.agent.open(EXEC).wait()["error_code"], "invalid")
        self.assertEqual(self.agent.open(99).wait()["error_code"], "invalid")

    def test_working_folder(self):
        self.assertEqual(self.sh("pwd", cwd="/usr").stdout, b"/usr\n")
        self.assertEqual(self.sh("pwd").stdout, b"/\n")
        ended = self.sh("pwd", cwd="/no/such").end
        self.assertEqual((ended["verdict"], ended["error_code"]), ("error", "not_found"))
        self.assertIn("/no/such", ended["message"])

    def test_environment(self):
        done = self.sh("echo $A-$B-$HOME-$USER; env | wc -l", env=["A=1", "B=2", "A=3"])
        self.assertEqual(done.stdout.split()[0], b"3-2-/root-root")

    def test_path_of_the_environment_is_searched(self):
        self.sh("mkdir /run/bin; printf '#!/bin/sh\\necho found\\n' > /run/bin/only-here; "
                "chmod +x /run/bin/only-here")
        self.assertEqual(self.agent.execute("only-here", env=["PATH=/run/bin:/bin"]).stdout, b"found\n")

    def test_users(self):
        self.assertEqual(self.sh("id -u; id -g; id -G; echo $HOME", user="nobody").stdout,
                         b"65534\n65534\n65534\n/nonexistent\n")
        self.assertEqual(self.sh("id -u; id -g", user="4242").stdout, b"4242\n0\n")
        self.assertEqual(self.sh("id -u; id -g", user="4242:4343").stdout, b"4242\n4343\n")
        self.assertEqual(self.sh("id -g", user="root:daemon").stdout, b"1\n")
        self.assertEqual(self.sh("id", user="nosuchuser").end["error_code"], "not_found")
        self.assertEqual(self.sh("id", user="root:nosuchgroup").end["error_code"], "not_found")

    def test_child_gets_clean_descriptors_signals_and_limits(self):
        done = self.sh("ls /proc/self/fd; grep -E 'SigBlk|SigIgn' /proc/self/status; ulimit -c; umask")
        self.assertEqual(done.stdout.split()[:4], [b"0", b"1", b"2", b"3"])
        self.assertEqual(done.stdout.split()[4:],
                         [b"SigBlk:", b"0" * 16, b"SigIgn:", b"0" * 16, b"0", b"0022"])

    def test_timeout_kills_grandchildren_in_other_sessions(self):
        done = self.sh("setsid sleep 987 & (setsid sh -c 'sleep 988' &) ; echo begun; sleep 989",
                       timeout_ms=300)
        self.assertEqual((done.end["verdict"], done.stdout), ("timeout", b"begun\n"))
        self.wait_until(lambda: not any("sleep 98" in row[2] for row in self.processes()))

    def test_background_process_outlives_the_command(self):
        began = time.monotonic()
        done = self.sh("(sleep 1; echo late; sleep 1; touch /run/survived) & echo early")
        self.assertLess(time.monotonic() - began, 1)
        self.assertEqual((done.stdout, done.end["exit_code"]), (b"early\n", 0))
        self.wait_until(lambda: self.sh("test -e /run/survived").end["exit_code"] == 0)

    def test_endless_background_writer_does_not_hold_the_command(self):
        done = self.sh("cat /dev/zero & echo $!")
        self.assertEqual(done.end["exit_code"], 0)
        self.sh("pkill -9 -x cat")

    def test_signal_reaches_the_group(self):
        running = self.agent.open(EXEC, arg=["sh", "-c", "sleep 60 & echo up; wait"])
        self.agent.pump_until(lambda: running.stdout == b"up\n")
        running.control(signal=signal.SIGTERM)
        ended = running.wait()
        self.assertEqual((ended["verdict"], ended["signal"]), ("signaled", signal.SIGTERM))
        self.wait_until(lambda: not any("sleep 60" in row[2] for row in self.processes()))

    def test_no_zombies_and_no_scopes_stay(self):
        for _ in range(20):
            self.sh("(sleep 0.05 &) ; (true &)")
        self.wait_until(lambda: not self.processes())
        root = self.sh("sed -n 's/.*::\\(.*\\)\\/[0-9]*$/\\1/p' /proc/self/cgroup").stdout.decode().strip()
        with open("/proc/self/mountinfo") as mounts:
            mount = next(line.split()[4] for line in mounts if " - cgroup2 " in line)
        self.wait_until(lambda: len([name for name in os.listdir(mount + root) if name.isdigit()]) == 0)


class Terminals(AgentTest):
    def test_terminal_has_its_size_and_can_be_resized(self):
        shell = self.agent.open(EXEC, arg=["sh"], pty=1, rows=33, cols=111, term="vt100")
        shell.send(b"stty size; echo $TERM; tty\n")
        self.agent.pump_until(lambda: b"/dev/pts/" in shell.stdout)
        self.assertIn(b"33 111\r\nvt100\r\n", shell.stdout)
        shell.control(rows=50, cols=60)
        shell.send(b"stty size\n")
        self.agent.pump_until(lambda: b"50 60\r\n" in shell.stdout)
        shell.eof()
        self.assertEqual(shell.wait()["exit_code"], 0)

    def test_interrupt_reaches_the_foreground_only(self):
        shell = self.agent.open(EXEC, arg=["bash", "--norc", "-i"], pty=1)
        shell.send(b"echo ready-$((1+1)); sleep 100\n")
        self.agent.pump_until(lambda: b"ready-2" in shell.stdout)
        self.wait_until(lambda: any("sleep 100" in row[2] for row in self.processes()))
        shell.control(signal=signal.SIGINT)
        shell.send(b"echo alive-$((2+2))\n")
        self.agent.pump_until(lambda: b"alive-4" in shell.stdout)
        shell.send(b"exit 5\n")
        self.assertEqual(shell.wait()["exit_code"], 5)

    def test_tail_of_terminal_output_is_never_lost(self):
        for _ in range(20):
            done = self.agent.execute("sh", "-c", "head -c 20000 /dev/zero | tr '\\0' x; echo end", pty=1)
            self.assertTrue(done.stdout.endswith(b"end\r\n"))
            self.assertEqual(done.stdout.count(b"x"), 20000)


class Contexts:
    """What holds for every language; subclasses say how it is written."""

    def call(self, code, **fields):
        return self.agent.run(code, self.language, **fields)

    def test_state_persists(self):
        self.assertEqual(self.call(self.assign).end["exit_code"], 0)
        again = self.call(self.recall)
        self.assertEqual([(r["type"], r["text"]) for r in again.records()], [("result", "42")])
        self.assertEqual(again.stdout, b"")

    def test_print_is_one_piece(self):
        done = self.call(self.print_two)
        self.assertEqual(done.pieces, [(STDOUT, b"one 1\n"), (STDOUT, b"two 2\n")])
        self.assertEqual(done.records(), [])

    def test_error_is_a_record(self):
        done = self.call(self.failing)
        self.assertEqual((done.end["verdict"], done.end["exit_code"]), ("exited", 1))
        record = done.records()[-1]
        self.assertEqual((record["type"], record["value"]), ("error", "boom"))
        self.assertIn("<call-1>", record["traceback"])
        self.assertNotIn("/run/msb", record["traceback"])
        self.assertNotIn("state_lost", done.end)

    def test_syntax_error_is_a_record(self):
        self.assertEqual(self.call("this is no code").records()[0]["name"], "SyntaxError")
        self.assertEqual(self.call(self.recall_simple).end["exit_code"], 0)

    def test_timeout_interrupts_and_keeps_state(self):
        self.call(self.assign)
        done = self.call(self.endless, timeout_ms=500)
        self.assertEqual(done.end["verdict"], "timeout")
        self.assertNotIn("state_lost", done.end)
        self.assertEqual(done.records()[-1]["name"], "KeyboardInterrupt")
        self.assertEqual(self.call(self.recall).records()[0]["text"], "42")

    def test_stubborn_code_is_replaced(self):
        self.call(self.assign)
        done = self.call(self.stubborn, timeout_ms=300)
        self.assertEqual((done.end["verdict"], done.end["state_lost"]), ("timeout", 1))
        self.assertEqual(self.call(self.recall).end["exit_code"], 1)

    def test_crash_is_told_and_replaced(self):
        done = self.call(self.crash)
        self.assertEqual((done.end["verdict"], done.end["state_lost"]), ("signaled", 1))
        self.assertEqual(self.call(self.print_two).end["exit_code"], 0)

    def test_exit_ends_the_call_only(self):
        self.call(self.assign)
        done = self.call(self.leave)
        self.assertEqual(done.records()[-1]["name"], "SystemExit")
        self.assertEqual(self.call(self.recall).records()[0]["text"], "42")

    def test_calls_are_serial(self):
        calls = [self.agent.begin(self.print_two, self.language) for _ in range(20)]
        for operation in calls:
            operation.wait()
            self.assertEqual(operation.stdout, b"one 1\ntwo 2\n")

    def test_cancelled_call_ends(self):
        running = self.agent.begin(self.endless, self.language)
        queued = self.agent.begin(self.print_two, self.language)
        queued.control(cancel=1)
        self.assertEqual(queued.wait()["verdict"], "cancelled")
        self.call_started(running)
        running.control(cancel=1)
        self.assertEqual(running.wait()["verdict"], "cancelled")

    def call_started(self, operation):
        self.agent.pump_until(lambda: operation.stdout)

    def test_broken_channel_replaces_the_interpreter(self):
        done = self.call(self.break_channel)
        self.assertEqual((done.end["verdict"], done.end["state_lost"]), ("signaled", 1))
        self.assertEqual(self.call(self.print_two).stdout, b"one 1\ntwo 2\n")

    def test_large_output_flows_under_credit(self):
        done = self.call(self.large)
        self.assertEqual(len(done.stdout), 3_000_001)

    def test_output_of_children_is_delivered_before_the_end(self):
        for _ in range(5):
            self.assertEqual(self.call(self.child_prints).stdout, b"from a child\n")

    def test_adopt_reseeds_and_sets_environment(self):
        self.call(self.assign)
        numbers = []
        for seed in (b"a" * 32, b"a" * 32, b"b" * 32):
            ended = self.agent.open(ADOPT, entropy=seed, env=["COLOUR=blue"], cwd="/usr").wait()
            self.assertNotIn("verdict", ended)
            numbers.append(self.call(self.random_number).records()[0]["text"])
        self.assertEqual(numbers[0], numbers[1])
        self.assertNotEqual(numbers[0], numbers[2])
        self.assertEqual(self.call(self.show_world).stdout, b"blue /usr\n")

    def test_quiesce_leaves_no_trace(self):
        self.assertNotIn("verdict", self.agent.open(QUIESCE, language=[self.language]).wait(60))
        began = time.monotonic()
        done = self.call(self.failing)
        self.assertLess(time.monotonic() - began, 1)
        self.assertIn("<call-1>", done.records()[-1]["traceback"])
        self.assertEqual(done.stdout, b"")

    def test_code_over_the_limit(self):
        operation = self.agent.open(RUN, language=self.language)
        operation.send(bytes(17 * 1024 * 1024))
        self.assertEqual(operation.wait()["error_code"], "limit")


class Python(Contexts, AgentTest):
    language = "python"
    assign = "import random; answer = 42"
    recall = "answer"
    recall_simple = "1+1"
    print_two = "print('one', 1)\nprint('two', 2)"
    failing = "def f():\n\n    raise ValueError('boom')\n\nf()"
    endless = "print('begun')\nwhile True: pass"
    stubborn = ("import time\nwhile True:\n  try:\n    time.sleep(9)\n"
                "  except KeyboardInterrupt:\n    pass")
    crash = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    leave = "exit(3)"
    break_channel = ("import os, time\nfor fd in range(3, 300):\n  try: os.write(fd, b'?????')\n"
                     "  except OSError: pass\ntime.sleep(20)")
    large = "print('x' * 3_000_000)"
    child_prints = "import os; _ = os.system('echo from a child')"
    random_number = "import random; random.random()"
    show_world = "import os; print(os.environ['COLOUR'], os.getcwd())"

    def test_several_statements_with_blank_lines_and_decorators(self):
        code = ("import functools\n\n@functools.lru_cache\ndef fib(n):\n\n    if n < 2:\n"
                "        return n\n\n    return fib(n - 1) + fib(n - 2)\n\n\nclass A:\n\n"
                "    x = 1\n\nfor i in range(2):\n    print(i)\n\nfib(30)\n")
        done = self.call(code)
        self.assertEqual((done.stdout, done.records()[0]["text"]), (b"0\n1\n", "832040"))

    def test_traceback_shows_source_lines(self):
        trace = self.call(self.failing).records()[0]["traceback"]
        self.assertIn("raise ValueError('boom')", trace)
        self.assertIn('File "<call-1>", line 3, in f', trace)

    def test_input_is_at_its_end(self):
        self.assertEqual(self.call("input()").records()[0]["name"], "EOFError")

    def test_main_is_a_real_module(self):
        done = self.call("import pickle, sys\nclass C: pass\n"
                         "pickle.loads(pickle.dumps(C())).__class__ is C, sys.modules['__main__'].C is C")
        self.assertEqual(done.records()[0]["text"], "(True, True)")

    def test_names_at_start_are_few(self):
        self.assertEqual(self.call("[n for n in dir() if not n.startswith('__')]").records()[0]["text"], "[]")

    def test_forked_child_does_not_disturb(self):
        done = self.call("import os\npid = os.fork()\nif pid == 0:\n    print('child')\n"
                         "else:\n    os.waitpid(pid, 0)\n    print('parent')")
        self.assertEqual(sorted(done.stdout.split()), [b"child", b"parent"])
        self.assertEqual(self.call("1+1").records()[0]["text"], "2")

    def test_interpreter_that_exits_is_told(self):
        done = self.call("import os; print('last words'); os._exit(9)")
        self.assertEqual((done.end["verdict"], done.end["exit_code"], done.end["state_lost"]),
                         ("exited", 9, 1))
        self.assertEqual(done.stdout, b"last words\n")

    def test_unflushed_output_is_flushed_at_the_end(self):
        self.assertEqual(self.call("print('no newline', end='')").pieces, [(STDOUT, b"no newline")])

    def test_interrupt_while_printing_keeps_the_channel_whole(self):
        for _ in range(5):
            done = self.call("while True: print('x' * 500)", timeout_ms=100)
            self.assertEqual(done.end["verdict"], "timeout")
            self.assertNotIn("state_lost", done.end)
            self.assertEqual(set(done.stdout), set(b"x\n"))

    def test_print_from_threads(self):
        done = self.call("import threading\nts=[threading.Thread(target=lambda: [print('t'*20) for _ in "
                         "range(100)]) for _ in range(8)]\n[t.start() for t in ts]\n"
                         "for t in ts: t.join()")
        self.assertEqual(done.stdout.count(b"t"), 16000)


@unittest.skipUnless(shutil.which("node"), "node is not installed")
class Node(Contexts, AgentTest):
    language = "node"
    assign = "const answer = 42; let other = 1; class Thing {}"
    recall = "answer"
    recall_simple = "1+1"
    print_two = "console.log('one', 1)\nconsole.log('two', 2)"
    failing = "function f() {\n\n  throw new Error('boom')\n}\nf()"
    endless = "console.log('begun'); while (true) {}"
    stubborn = "process.removeAllListeners('SIGINT'); process.on('SIGINT', () => {}); " \
               "await new Promise(() => setInterval(() => {}, 1000))"
    crash = "process.kill(process.pid, 'SIGKILL'); while (true) {}"
    leave = "process.exit(3)"
    break_channel = "require('fs').writeSync(4, '?????'); while (true) {}"
    large = "console.log('x'.repeat(3000000))"
    child_prints = "require('child_process').execSync('echo from a child', {stdio: 'inherit'}); undefined"
    random_number = "Math.random()"
    show_world = "console.log(process.env.COLOUR, process.cwd())"

    def test_declarations_may_be_repeated(self):
        self.call(self.assign)
        self.assertEqual(self.call("const answer = 43; class Thing {}; answer").records()[0]["text"], "43")

    def test_promises_are_awaited(self):
        self.assertEqual(self.call("await new Promise(r => setTimeout(r, 20, 5))").records()[0]["text"], "5")
        self.assertEqual(self.call("Promise.resolve('v')").records()[0]["text"], "'v'")
        rejected = self.call("Promise.reject(new TypeError('no'))")
        self.assertEqual(rejected.records()[0]["name"], "TypeError")

    def test_waiting_can_be_interrupted(self):
        done = self.call("await new Promise(() => {})", timeout_ms=200)
        self.assertEqual(done.end["verdict"], "timeout")
        self.assertNotIn("state_lost", done.end)

    def test_modules_can_be_required(self):
        self.assertEqual(self.call("typeof require('path').join + typeof module + typeof exports"
                                   ).records()[0]["text"], "'functionobjectobject'")

    def test_late_exception_does_not_end_the_interpreter(self):
        self.call("let kept = 1; setTimeout(() => { throw new Error('late') }, 10); 0")
        self.call("await new Promise(r => setTimeout(r, 50))")
        self.assertEqual(self.call("kept").records()[0]["text"], "1")

    def test_values_are_shown_as_the_repl_does(self):
        for code, text in (("({a: [1, 2]})", "{ a: [ 1, 2 ] }"), ("10n", "10n"), ("-0", "-0"),
                           ("null", "null"), ("NaN", "NaN"), ("Symbol('s')", "Symbol(s)"),
                           ("'t'", "'t'"), ("false", "false")):
            self.assertEqual(self.call(code).records()[0]["text"], text)
        self.assertEqual(self.call("undefined").records(), [])


class Wire(AgentTest):
    def test_missing_language(self):
        self.assertEqual(self.agent.open(RUN, language="cobol").wait()["error_code"], "invalid")
        ended = self.agent.open(ADOPT, entropy=b"x" * 32, env=["PATH=/nowhere"]).wait()
        self.assertNotIn("verdict", ended)
        ended = self.agent.run("1").end
        self.assertEqual((ended["error_code"], "hint" in ended), ("missing", True))

    def test_adopt_wants_entropy(self):
        self.assertEqual(self.agent.open(ADOPT, entropy=b"short").wait()["error_code"], "invalid")
        refused = self.agent.open(EXEC, arg=["true"]).wait()
        self.assertEqual(refused["error_code"], "unavailable")

    def test_adopted_environment_reaches_commands(self):
        self.agent.open(ADOPT, entropy=b"x" * 32, env=["A=1", "B=1"], cwd="/usr").wait()
        done = self.sh("echo $A$B; pwd", env=["B=2"])
        self.assertEqual(done.stdout, b"12\n/usr\n")

    def test_malformed_frames_end_the_agent_without_harm(self):
        cases = [
            struct.pack("<IIBBH", 0xffffffff, 1, OPEN, EXEC, 0),
            struct.pack("<IIBBH", 0, 1, 200, 0, 0),
            struct.pack("<IIBBH", 0, 1, OPEN, EXEC, 7),
            struct.pack("<IIBBH", 0, 0, OPEN, EXEC, 0),
        ]
        for case in cases:
            with self.subTest(case=case):
                agent = Agent(default_binary())
                before = agent.open(EXEC, arg=["sleep", "60"])
                agent.raw(case)
                with self.assertRaises((ConnectionError, ConnectionResetError)):
                    before.wait()
                self.assertEqual(agent.stop(), 1)

    def test_more_data_than_credit_is_refused(self):
        agent = Agent(default_binary())
        sleeper = agent.open(EXEC, arg=["sleep", "60"])
        agent.frame(sleeper.stream, DATA, 0, bytes(200_000))
        agent.frame(sleeper.stream, DATA, 0, bytes(200_000))
        with self.assertRaises((ConnectionError, ConnectionResetError)):
            sleeper.wait()
        self.assertEqual(agent.stop(), 1)

    def test_malformed_fields_are_an_error_of_the_operation(self):
        self.agent.next_stream = 50
        operation = self.agent.open(EXEC, arg=["true"])
        self.assertEqual(operation.wait()["exit_code"], 0)
        broken = self.agent.open(EXEC, arg=["a\0b"])
        self.assertEqual(broken.wait()["error_code"], "protocol")

    def test_frames_for_ended_streams_are_ignored(self):
        done = self.sh("true")
        done.control(cancel=1)
        self.agent.frame(done.stream, CREDIT, 0, struct.pack("<I", 5))
        self.agent.frame(done.stream, DATA, 0, b"late")
        self.assertEqual(self.sh("echo on").stdout, b"on\n")


class Endings(unittest.TestCase):
    def test_closed_connection_ends_everything(self):
        before = groups()
        agent = Agent(default_binary())
        agent.open(EXEC, arg=["sh", "-c", "setsid sleep 1000 & sleep 1001"])
        agent.run("1+1")
        self.assertEqual(agent.stop(), 0)
        self.assertEqual(groups() - before, set())

    def test_shutdown_ends_everything(self):
        before = groups()
        agent = Agent(default_binary())
        agent.open(EXEC, arg=["sleep", "1000"])
        self.assertNotIn("verdict", agent.open(SHUTDOWN).wait())
        self.assertEqual(agent.process.wait(10), 0)
        self.assertEqual(groups() - before, set())
        agent.stop()


if __name__ == "__main__":
    unittest.main()
