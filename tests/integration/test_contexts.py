"""Contexts: several in one sandbox, bash, variables for one call, copies of a warm interpreter.
Needs root for the namespaces."""
import json
import os
import shutil
import signal
import time
import unittest

from agent_harness import (ADOPT, CONTEXT_LIST, CONTEXT_MAKE, CONTEXT_REMOVE, CONTEXT_RESTART, QUIESCE,
                           RUN, Agent, default_binary)
from test_agent import AgentTest


def group_of(agent):
    """The folder of the control groups that this agent has made."""
    own = agent.execute("sed", "-n", "s/.*::\\(.*\\)\\/[0-9]*$/\\1/p", "/proc/self/cgroup").stdout
    with open("/proc/self/mountinfo") as mounts:
        mount = next(line.split()[4] for line in mounts if " - cgroup2 " in line)
    return mount + own.decode().strip()


class ContextTest(AgentTest):
    def make(self, language="python", **fields):
        """The context's description."""
        ended = self.agent.open(CONTEXT_MAKE, language=language, **fields).wait()
        self.assertNotIn("verdict", ended)
        return json.loads(ended["status"])

    def refused(self, operation, **fields):
        """The code and whether there is a hint."""
        ended = self.agent.open(operation, **fields).wait()
        self.assertEqual(ended["verdict"], "error")
        return ended["error_code"]

    def list(self):
        operation = self.agent.open(CONTEXT_LIST)
        self.assertNotIn("verdict", operation.wait())
        return {record["id"]: record for record in operation.records()}

    def begin(self, context, code, **fields):
        operation = self.agent.open(RUN, context=context, **fields)
        operation.send(code.encode())
        operation.eof()
        return operation

    def call(self, context, code, **fields):
        operation = self.begin(context, code, **fields)
        operation.wait()
        return operation

    def text(self, context, code, **fields):
        done = self.call(context, code, **fields)
        self.assertEqual(done.end["exit_code"], 0, (done.end, done.records(), done.stderr))
        return done.stdout.decode()

    def assert_nothing_stays(self, agent):
        group = group_of(agent)
        self.assertTrue(os.path.isdir(group))
        self.assertEqual(agent.stop(), 0)
        self.assertFalse(os.path.exists(group))

    def begun(self, operation):
        self.agent.pump_until(lambda: operation.stdout)


class Several(ContextTest):
    def test_the_death_of_an_idle_interpreter_is_told_with_the_next_call(self):
        context = self.make(context="idle")
        self.text("idle", "x = 1")
        self.agent.execute("kill", "-9", str(context["pid"]))
        ended = self.call("idle", "x").end
        self.assertEqual(ended.get("state_lost"), 1, ended)
        # Either it was gone already, or this call found it dying.
        self.assertIn((ended["verdict"], ended["exit_code"]), (("exited", 1), ("signaled", 0)))
        self.assertNotIn("state_lost", self.call("idle", "1").end)

    def test_contexts_are_made_listed_and_removed(self):
        first = self.make(cwd="/usr", env=["COLOUR=blue"])
        second = self.make("bash", context="my.shell_1")
        self.assertEqual((first["id"], first["language"], first["cwd"], first["state"], first["count"]),
                         ("python-2", "python", "/usr", "idle", 0))
        self.assertEqual(self.list(), {"python-2": first, "my.shell_1": second})
        self.assertEqual(self.text("python-2", "import os; print(os.getcwd(), os.environ['COLOUR'])"),
                         "/usr blue\n")
        self.assertEqual(self.list()["python-2"]["count"], 1)
        self.assertNotIn("verdict", self.agent.open(CONTEXT_REMOVE, context="python-2").wait())
        self.assertEqual(list(self.list()), ["my.shell_1"])
        self.wait_until(lambda: not any("python" in row[2] for row in self.processes()))

    def test_first_contexts_are_named_after_their_language(self):
        self.agent.run("x = 1", "py")
        self.assertEqual(self.text("python", "print(x)"), "1\n")
        self.assertEqual(self.agent.run("echo $((1+1))", "sh").stdout, b"2\n")
        self.assertEqual(list(self.list()), ["python", "bash"])
        self.agent.open(CONTEXT_REMOVE, context="python").wait()
        self.assertEqual(self.refused(RUN, context="python"), "not_found")
        self.assertEqual(self.agent.run("x").records()[0]["name"], "NameError")

    def test_rehearsals_leave_no_trace(self):
        for language, code in (("python", "x = 1; print(x)\nx"), ("node", "console.log(1);1")):
            if shutil.which({"python": "python3"}.get(language, language)):
                rehearsal = self.agent.run(code, language, rehearsal=1)
                self.assertEqual(rehearsal.end["exit_code"], 0)
                self.assertEqual(self.agent.run("1", language).end["count"], 1)
        left = self.agent.run("print('x' in globals(), len(In), Out)")
        self.assertEqual(left.stdout, b"False 3 {1: 1}\n")

    def test_an_interrupt_right_behind_the_code_is_not_lost(self):
        for delay in range(40):
            self.agent.run("y = 7")
            # Python itself can miss one that comes just before it goes to sleep.
            running = self.agent.begin("import time\nwhile True: time.sleep(0.01)")
            time.sleep(delay / 20000)
            running.control(cancel=1)
            running.wait()
            self.assertEqual(self.agent.run("y").records()[0].get("text"), "7", delay)

    @unittest.skipUnless(shutil.which("node"), "node is not installed")
    def test_contexts_of_node(self):
        one = self.make("NodeJS", cwd="/usr", env=["COLOUR=blue"])
        two = self.make("ts")
        self.assertEqual([(made["id"], made["language"]) for made in (one, two)],
                         [("node-2", "node"), ("node-3", "typescript")])
        self.assertEqual(self.text("node-2", "let x = 1; console.log(process.cwd(), process.env.COLOUR)"),
                         "/usr blue\n")
        plain, typed = self.call("node-2", "x"), self.call("node-3", "let y: number = 2; y")
        self.assertEqual(plain.records()[0]["text"], "1")
        self.assertIn(typed.records()[0].get("name", "result"), ("TypeScriptUnsupported", "result"))
        self.assertEqual(self.call("node-3", "x", language="js").records()[0]["name"], "ReferenceError")

    def test_ids_that_are_made_up_are_free(self):
        self.make(context="python-3")
        self.assertEqual([self.make()["id"] for _ in range(2)], ["python-2", "python-4"])

    def test_contexts_do_not_see_each_other(self):
        one, two = self.make()["id"], self.make()["id"]
        self.call(one, "x = 1")
        self.assertEqual(self.call(two, "x").records()[0]["name"], "NameError")

    def test_contexts_run_side_by_side_and_calls_of_one_in_order(self):
        loop = self.begin(self.make()["id"], "print('begun')\nwhile True: pass")
        self.begun(loop)
        other = self.make()["id"]
        calls = [self.begin(other, "n = globals().get('n', 0) + 1; print(n)") for _ in range(5)]
        for number, operation in enumerate(calls, 1):
            operation.wait()
            self.assertEqual((operation.stdout, operation.end["count"]), (b"%d\n" % number, number))
        self.assertEqual(self.list()["python-2"]["state"], "busy")
        self.assertIsNone(loop.end)
        loop.control(cancel=1)
        self.assertEqual(loop.wait()["verdict"], "cancelled")

    def test_bad_requests_are_told(self):
        self.make(context="taken")
        for code, fields in (
                ("exists", {"language": "python", "context": "taken"}),
                ("invalid", {"language": "python", "context": ""}),
                ("invalid", {"language": "python", "context": "a" * 65}),
                ("invalid", {"language": "python", "context": "a/b"}),
                ("invalid", {"language": "python", "context": "node"}),
                ("invalid", {"language": "python", "context": "js"}),
                ("invalid", {"language": "cobol"}),
                ("invalid", {"context": "without-language"}),
                ("invalid", {"language": "python", "cwd": "relative"}),
                ("invalid", {"language": "python", "cwd": "/etc/passwd"}),
                ("not_found", {"language": "python", "cwd": "/no/such/folder"}),
                ("invalid", {"language": "python", "env": ["NOVALUE"]}),
                ("invalid", {"language": "python", "env": ["=nameless"]}),
                ("protocol", {"language": "python", "context": "a\0b"})):
            with self.subTest(**fields):
                self.assertEqual(self.refused(CONTEXT_MAKE, **fields), code)
        self.assertEqual(self.refused(CONTEXT_RESTART, context="nobody"), "not_found")
        self.assertEqual(self.refused(CONTEXT_REMOVE, context="nobody"), "not_found")
        self.assertEqual(self.refused(CONTEXT_REMOVE), "invalid")
        self.assertEqual(self.refused(RUN, context="nobody"), "not_found")
        self.assertEqual(self.refused(RUN), "invalid")
        self.assertEqual(self.call("taken", "1", language="bash").end["error_code"], "invalid")
        self.assertEqual(list(self.list()), ["taken"])

    def test_missing_interpreter_leaves_no_context(self):
        self.agent.open(ADOPT, entropy=b"x" * 32, env=["PATH=/nowhere"]).wait()
        self.assertEqual(self.refused(CONTEXT_MAKE, language="python", context="one"), "missing")
        self.assertEqual(self.list(), {})

    def test_folder_that_the_user_may_not_enter(self):
        self.sh("mkdir -m 700 /run/mine")
        self.agent.open(ADOPT, entropy=b"x" * 32, user="nobody").wait()
        self.assertEqual(self.refused(CONTEXT_MAKE, language="bash", cwd="/run/mine"), "denied")
        self.assertEqual(self.list(), {})

    def test_there_is_a_limit(self):
        made = [self.agent.open(CONTEXT_MAKE, language="bash") for _ in range(64)]
        for operation in made:
            self.assertNotIn("verdict", operation.wait(60))
        self.assertEqual(len(self.list()), 64)
        self.assertEqual(self.refused(CONTEXT_MAKE, language="bash"), "limit")
        self.assertEqual(self.agent.run("1").end["error_code"], "limit")
        self.agent.open(CONTEXT_REMOVE, context="bash-33").wait()
        self.assertEqual(self.agent.run("1").end["exit_code"], 0)

    def test_restart_cancels_the_call_and_goes_on_with_the_rest(self):
        context = self.make()["id"]
        self.call(context, "x = 1")
        running = self.begin(context, "import subprocess\nsubprocess.Popen(['setsid', 'sleep', '987'])\n"
                                      "print('begun')\nwhile True: pass")
        queued = self.begin(context, "print('x' in globals())")
        self.begun(running)
        restart = self.agent.open(CONTEXT_RESTART, context=context)
        ended = running.wait()
        self.assertEqual((ended["verdict"], ended["state_lost"]), ("cancelled", 1))
        queued.wait()
        self.assertEqual((queued.stdout, queued.end["verdict"], queued.end["count"]),
                         (b"False\n", "exited", 1))
        self.assertNotIn("verdict", restart.wait())
        self.wait_until(lambda: not any("sleep 987" in row[2] for row in self.processes()))

    def test_remove_cancels_all_calls(self):
        context = self.make("bash")["id"]
        running = self.begin(context, "sleep 986 & echo begun; sleep 985")
        queued = self.begin(context, "echo never")
        waiting = self.agent.open(RUN, context=context)
        self.begun(running)
        self.agent.open(CONTEXT_REMOVE, context=context).wait()
        self.assertEqual([running.wait()["verdict"], queued.wait()["verdict"]], ["cancelled"] * 2)
        waiting.eof()
        self.assertEqual(waiting.wait()["error_code"], "not_found")
        self.wait_until(lambda: not self.processes())

    def test_request_that_is_cancelled_makes_nothing(self):
        making = self.agent.open(CONTEXT_MAKE, language="python", context="one")
        making.control(cancel=1)
        self.assertIn(making.wait().get("verdict"), ("cancelled", None))
        if making.end.get("verdict"):
            self.assertEqual(self.list(), {})

    def test_closed_connection_ends_all_contexts(self):
        agent = Agent(default_binary())
        for language in ("python", "bash"):
            agent.open(CONTEXT_MAKE, language=language).wait()
        self.assert_nothing_stays(agent)


class Variables:
    """Variables for one call; subclasses say how it is written."""

    def show(self, **fields):
        return self.agent.run(self.show_ab, self.language, **fields).stdout

    def test_variables_are_undone(self):
        self.agent.open(ADOPT, entropy=b"x" * 32, env=["A=old"]).wait()
        self.assertEqual(self.show(env=["A=1", "B=ü = 2", "A=3"]), "3-ü = 2\n".encode())
        self.assertEqual(self.show(), b"old-\n")

    def test_variables_are_undone_whatever_the_code_does(self):
        self.agent.open(ADOPT, entropy=b"x" * 32, env=["A=old"]).wait()
        for code in (self.change_ac, self.fail):
            self.agent.run(code, self.language, env=["A=1", "B=2"])
            self.assertEqual(self.show(), b"old-\n")
        ended = self.agent.run(self.endless, self.language, env=["A=1", "B=2"], timeout_ms=500).end
        self.assertEqual((ended["verdict"], "state_lost" in ended), ("timeout", False))
        self.assertEqual(self.show(), b"old-\n")
        self.assertEqual(self.agent.run(self.show_c, self.language).stdout, b"kept\n")

    def test_children_get_them(self):
        self.assertEqual(self.agent.run(self.child, self.language, env=["B=2"]).stdout, b"2\n")


class PythonVariables(Variables, AgentTest):
    language = "python"
    show_ab = "import os; print(os.environ.get('A', '') + '-' + os.environ.get('B', ''))"
    change_ac = "import os; os.environ.update(A='x', C='kept'); del os.environ['B']"
    show_c = "print(os.environ['C'])"
    fail = "raise ValueError"
    endless = "while True: pass"
    child = "import os; _ = os.system('echo $B')"


@unittest.skipUnless(shutil.which("node"), "node is not installed")
class NodeVariables(Variables, AgentTest):
    language = "node"
    show_ab = "console.log((process.env.A || '') + '-' + (process.env.B || ''))"
    change_ac = "process.env.A = 'x'; process.env.C = 'kept'; delete process.env.B"
    show_c = "console.log(process.env.C)"
    fail = "throw new Error()"
    endless = "while (true) {}"
    child = "require('child_process').execSync('echo $B', {stdio: 'inherit'}); undefined"

    def test_typescript_runs_or_says_why_not(self):
        done = self.agent.run("const x: number = 41; x + 1", "typescript")
        record = done.records()[-1]
        if record["type"] == "result":
            self.assertEqual(record["text"], "42")
        else:
            self.assertEqual((done.end["exit_code"], record["name"]), (1, "TypeScriptUnsupported"))
            self.assertIn("cannot run TypeScript", record["value"])
        self.assertEqual(self.agent.run("40 + 2", "js").records()[0]["text"], "42")


class BashVariables(Variables, AgentTest):
    language = "bash"
    show_ab = 'echo "$A-$B"'
    change_ac = "A=x; unset B; export C=kept"
    show_c = "echo $C"
    fail = "exit 5"
    endless = "while :; do :; done"
    child = "sh -c 'echo $B'"

    def test_variables_that_bash_cannot_have_are_left_out(self):
        done = self.agent.run("readonly R=1; echo $R", "bash", env=["a.b=1", "UID=7"])
        self.assertEqual((done.stdout, done.stderr), (b"1\n", b""))
        self.assertEqual(self.agent.run("echo $R", "bash", env=["R=2"]).stdout, b"1\n")


class Bash(AgentTest):
    def call(self, code, **fields):
        return self.agent.run(code, "bash", **fields)

    def test_state_persists(self):
        self.call("x=1; export y=2; a=(p 'q r'); f() { echo \"f $1\"; }; cd /usr; shopt -s nullglob; set -u")
        done = self.call("echo $x ${a[1]} $(printenv y) $PWD /nothing*; f 3; echo $-")
        self.assertEqual(done.stdout.decode().splitlines()[:2], ["1 q r 2 /usr", "f 3"])
        self.assertIn("u", done.stdout.decode().splitlines()[2])

    def test_exit_codes(self):
        for code, expected in (("true", 0), ("false", 1), ("(exit 7)", 7), ("exit 3", 3), ("", 0),
                               ("nosuchprogram", 127), ("if then", 2), ("return 4", 2)):
            with self.subTest(code=code):
                ended = self.call(code).end
                self.assertEqual((ended["verdict"], ended["exit_code"]), ("exited", expected))
                self.assertNotIn("state_lost", ended)

    def test_messages_name_bash_and_the_line(self):
        self.assertEqual(self.call("\nfoo").stderr, b"bash: line 2: foo: command not found\n")
        self.assertIn(b"bash: eval: line 1: syntax error", self.call("if then").stderr)

    def test_code_of_several_lines(self):
        done = self.call("for i in 1 2; do\n\n  echo $i  # comment\n\ndone\n\ncat <<END\na  $i\n\nb\nEND\n")
        self.assertEqual(done.stdout, b"1\n2\na  2\n\nb\n")

    def test_code_is_taken_byte_for_byte(self):
        code = "printf '%s|' 'ü€' '\\n' \"$((1+1))\" '\t'"
        self.assertEqual(self.call(code).stdout, "ü€|\\n|2|\t|".encode())
        self.assertEqual(self.call("echo " + "x" * 300_000).stdout, b"x" * 300_000 + b"\n")
        self.assertEqual(self.call("echo a\0b").end["error_code"], "invalid")

    def test_what_would_end_a_shell_ends_the_call_only(self):
        self.call("x='1\n2'; declare -A m=([k]=v); f() { echo f; }; cd /usr")
        for code, expected in (("exit 9; echo no", 9), ("set -e; false; echo no", 1),
                               ("set +e; set -u; echo $nothing", 127), ("set +u; g() { exit 8; }; g", 8),
                               ("{ exit 6; } >/dev/null", 6), ("echo ${nothing:?}", 127)):
            with self.subTest(code=code):
                done = self.call(code)
                self.assertEqual((done.end["exit_code"], done.stdout), (expected, b""))
                self.assertNotIn("state_lost", done.end)
                self.assertEqual(self.call('echo "$x ${m[k]} $PWD"; f').stdout, b"1\n2 v /usr\nf\n")

    def test_trace_shows_only_the_code(self):
        self.assertEqual(self.call("set -x; true").stderr, b"++ true\n")
        self.assertEqual(self.call("echo on; set +x").stderr, b"++ echo on\n++ set +x\n")
        self.assertEqual(self.call("echo off").stderr, b"")

    def test_input_is_at_its_end(self):
        self.assertEqual(self.call("read line; echo $?").stdout, b"1\n")

    def test_interrupts_keep_the_state(self):
        self.call("x=1")
        for code in ("while :; do :; done", "sleep 984", "f() { while :; do sleep 0.05; done; }; f",
                     "sleep 983 | cat", "y=$(sleep 982)"):
            with self.subTest(code=code):
                ended = self.call(code, timeout_ms=300).end
                self.assertEqual((ended["verdict"], "state_lost" in ended), ("timeout", False))
                self.assertEqual(self.call("echo $x").stdout, b"1\n")
        self.assertFalse([row for row in self.processes() if "sleep 98" in row[2]])

    def test_stubborn_code_is_replaced(self):
        self.call("x=1")
        ended = self.call("trap '' INT; while :; do :; done", timeout_ms=300).end
        self.assertEqual((ended["verdict"], ended["state_lost"]), ("timeout", 1))
        self.assertEqual(self.call("echo $x").stdout, b"\n")

    def test_crash_and_exec_are_told(self):
        ended = self.call("kill -9 $$").end
        self.assertEqual((ended["verdict"], ended["signal"], ended["state_lost"]), ("signaled", 9, 1))
        ended = self.call("exec sh -c 'exit 4'").end
        self.assertEqual((ended["verdict"], ended["exit_code"], ended["state_lost"]), ("exited", 4, 1))

    def test_endless_recursion_is_a_crash(self):
        ended = self.call("f() { f; }; f").end
        self.assertEqual((ended["verdict"], ended["signal"], ended["state_lost"]),
                         ("signaled", signal.SIGSEGV, 1))

    def test_background_jobs_live_until_the_context_ends(self):
        self.assertEqual(self.call("sleep 981 & echo up").stdout, b"up\n")
        self.call("sleep 10", timeout_ms=200)
        self.assertEqual(self.call("kill -0 $(pgrep -f 'sleep 981')").end["exit_code"], 0)
        self.agent.open(CONTEXT_REMOVE, context="bash").wait()
        self.wait_until(lambda: not self.processes())

    def test_output_is_delivered_before_the_end(self):
        for _ in range(5):
            self.assertEqual(len(self.call("head -c 300000 /dev/zero").stdout), 300000)

    def test_endless_output_is_cut_by_the_timeout(self):
        done = self.call("yes", timeout_ms=300)
        self.assertEqual(done.end["verdict"], "timeout")
        self.assertGreater(len(done.stdout), 100_000)


class Endings(ContextTest):
    """Ways in which a call of Python can end; those that hold for every language: test_agent.py."""

    def run_for(self, code, timeout_ms=400):
        """The verdict, and whether the state is gone."""
        self.agent.run("kept = 1")
        done = self.agent.run(code, timeout_ms=timeout_ms)
        known = self.agent.run("kept").end["exit_code"] == 0
        self.assertEqual(known, "state_lost" not in done.end)
        return done.end["verdict"], not known

    def test_sleep_is_interrupted(self):
        self.assertEqual(self.run_for("import time; time.sleep(1e9)"), ("timeout", False))

    def test_thread_that_never_ends_holds_nobody_up(self):
        code = "import threading\nthreading.Thread(target=threading.Event().wait).start()"
        self.assertEqual(self.run_for(code, 5000), ("exited", False))

    def test_ignored_interrupt_costs_the_state_and_all_processes(self):
        code = ("import signal, subprocess\nsubprocess.Popen(['setsid', 'sleep', '979'])\n"
                "signal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass")
        self.assertEqual(self.run_for(code), ("timeout", True))
        self.wait_until(lambda: not any("sleep 979" in row[2] for row in self.processes()))

    def test_crash_of_a_library(self):
        self.assertEqual(self.run_for("import ctypes; ctypes.string_at(0)", 5000), ("signaled", True))

    def test_flood_of_output(self):
        self.assertEqual(self.run_for("while True: print('x' * 10_000_000)", 1000), ("timeout", False))


class Zygote(ContextTest):
    """Contexts of a warm interpreter's copies."""

    def setUp(self):
        super().setUp()
        self.adopt(user="nobody", env=["COLOUR=red", "OLD=1"])
        self.assertNotIn("verdict", self.agent.open(QUIESCE, language=["python"]).wait(60))
        self.adopt(user="nobody", env=["COLOUR=blue"])
        self.pids = {int(row[0]) for row in self.processes()}

    def adopt(self, **fields):
        self.assertNotIn("verdict", self.agent.open(ADOPT, entropy=b"x" * 32, **fields).wait())

    def test_spare_becomes_the_context(self):
        self.assertEqual(len(self.pids), 3)  # the first context, the zygote, the spare
        made = self.make(cwd="/usr", env=["MINE=1"])
        self.assertIn(made["pid"], self.pids)
        code = ("import os\nprint(os.getuid(), os.getcwd(), os.environ['COLOUR'], os.environ['MINE'],"
                "'OLD' in os.environ, os.getppid(), os.getsid(0) == os.getpid())")
        self.assertEqual(self.text(made["id"], code), "65534 /usr blue 1 False 1 True\n")
        done = self.call(made["id"], "def f():\n    raise ValueError('boom')\nf()")
        self.assertIn("<call-2>", done.records()[0]["traceback"])

    def test_contexts_at_once_all_come(self):
        making = [self.agent.open(CONTEXT_MAKE, language="python") for _ in range(5)]
        for operation in making:
            self.assertNotIn("verdict", operation.wait())
        self.assertEqual(len({record["pid"] for record in self.list().values()}), 6)
        self.assertEqual(self.text("python-6", "import os; print(os.getppid())"), "1\n")

    def test_copies_are_no_twins(self):
        numbers = set()
        for _ in range(3):
            context = self.make()["id"]
            numbers.add(self.text(context, "import random, tempfile, uuid\nprint(random.random())"))
        self.assertEqual(len(numbers), 3)

    def test_copies_share_nothing_and_die_alone(self):
        one, two = self.make()["id"], self.make()["id"]
        self.call(one, "x = 1\nimport os\nos.environ['A'] = '1'\nos.chdir('/usr')")
        self.assertEqual(self.text(two, "import os; print('x' in globals(), 'A' in os.environ, os.getcwd())"),
                         "False False /\n")
        crash = self.call(one, "import signal\nos.kill(os.getpid(), signal.SIGKILL)")
        self.assertEqual((crash.end["verdict"], crash.end["state_lost"]), ("signaled", 1))
        self.assertEqual(self.text(two, "print(2)"), "2\n")
        self.assertEqual(self.text(one, "print('x' in globals())"), "False\n")
        self.assertEqual(self.text("python", "print(3)"), "3\n")

    def test_code_sees_nothing_of_the_zygote(self):
        context = self.make()["id"]
        code = ("import os\nprint(sorted(int(n) for n in os.listdir('/proc/self/fd') if int(n) < 200)[:4])\n"
                "try: os.wait()\nexcept ChildProcessError: print('no child')")
        for id in ("python", context):
            self.assertEqual(self.text(id, code), "[0, 1, 2, 3]\nno child\n")

    def test_restart_and_replacement_are_copies(self):
        self.call("python", "x = 1")
        ended = self.agent.open(CONTEXT_RESTART, context="python").wait()
        self.assertNotIn("verdict", ended)
        self.assertIn(json.loads(ended["status"])["pid"], self.pids)
        self.assertEqual(self.call("python", "x").records()[0]["name"], "NameError")

    def test_another_user_gets_a_process_of_its_own(self):
        self.adopt(user="daemon")
        made = self.make()
        self.assertNotIn(made["pid"], self.pids)
        self.assertEqual(self.text(made["id"], "import os; print(os.getuid())"), "1\n")

    def test_folder_that_cannot_be_entered(self):
        self.sh("mkdir -m 700 /run/mine", user="root")
        self.assertEqual(self.refused(CONTEXT_MAKE, language="python", cwd="/run/mine"), "denied")
        self.assertEqual(list(self.list()), ["python"])

    def test_contexts_come_without_zygote_too(self):
        first = self.list()["python"]["pid"]
        for pid in self.pids - {first}:
            self.sh("kill -9 %d" % pid, user="root")
        self.wait_until(lambda: len(self.processes()) == 1)
        self.assertEqual(self.text(self.make()["id"], "print(1)"), "1\n")
        self.assertEqual(self.text("python", "print(2)"), "2\n")

    def test_dead_spare_is_replaced(self):
        made = self.make()["pid"]
        self.agent.open(CONTEXT_REMOVE, context="python-2").wait()
        self.wait_until(lambda: len(self.processes()) == 3)
        spare = max(int(row[0]) for row in self.processes())
        self.assertNotEqual(spare, made)
        self.sh("kill -9 %d" % spare, user="root")
        self.assertEqual(self.text(self.make()["id"], "print(1)"), "1\n")

    def test_interrupt_reaches_one_context_only(self):
        one, two = self.make()["id"], self.make()["id"]
        calls = [self.begin(id, "print('begun')\nwhile True: pass") for id in (one, two)]
        for operation in calls:
            self.begun(operation)
        calls[0].control(signal=signal.SIGINT)
        self.assertEqual(calls[0].wait()["verdict"], "cancelled")
        self.assertIsNone(calls[1].end)

    def test_nothing_stays_behind(self):
        agent = Agent(default_binary())
        agent.open(QUIESCE, language=["python"]).wait(60)
        agent.open(CONTEXT_MAKE, language="python").wait()
        self.assert_nothing_stays(agent)


if __name__ == "__main__":
    unittest.main()
