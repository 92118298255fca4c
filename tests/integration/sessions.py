"""Sessions: made, reused, limited, evicted, expired, restored; orphans and background tasks."""

import concurrent.futures
import http.client
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import threading
import time
import unittest

from http_server import MSB, PATIENCE
from session_server import HOME, RpcError, Server, SessionTest, make_key


def soon(condition, seconds=PATIENCE):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError("not in time")
        time.sleep(0.02)


class Calls(SessionTest):
    def begin(self, code, session_id):
        """The connection of a call that is under way."""
        connection = http.client.HTTPConnection(self.server.url.removeprefix("http://"))
        self.addCleanup(connection.close)
        call = {"jsonrpc": "2.0", "id": 1, "method": "session.run_code",
                "params": {"code": code, "session_id": session_id}}
        connection.request("POST", "/api/v1/rpc", json.dumps(call), {"Content-Type": "application/json"})
        return connection

    def test_one_call_is_enough(self):
        result = self.server.run("print('hello')")
        self.assertEqual(result["stdout"], "hello\n")
        self.assertEqual((result["success"], result["exit_code"]), (True, 0))
        self.assertTrue(result["session_created"])
        self.assertEqual(result["template"], "python")
        self.assertGreaterEqual(result["execution_time_ms"], 0)
        self.assertEqual(self.server.ids(), [result["session_id"]])

    def test_state_stays_and_the_id_is_the_callers(self):
        self.assertTrue(self.server.run("x = 41", session_id="mine")["session_created"])
        again = self.server.run("x + 1", session_id="mine")
        self.assertEqual((again["stdout"], again["session_created"]), ("42\n", False))

    def test_first_calls_of_any_length(self):
        for length in (0, 16000, 16384, 400000):
            with self.subTest(length=length):
                result = self.server.run(f"# {'x' * length}\nn = globals().get('n', 0) + 1; print(n)",
                                         session_id=f"long-{length}")
                self.assertEqual((result["stdout"], result["session_created"]), ("1\n", True))
                again = self.server.run("n", session_id=f"long-{length}")
                self.assertEqual(again["stdout"], "1\n")

    def test_calls_that_wait_for_the_start_keep_their_order(self):
        first = self.begin("x = [1]", "queue")
        soon(lambda: "queue" in self.server.ids())
        second = self.begin("x.append(2)", "queue")
        for call in (first, second):
            self.assertIn(b'"success":true', call.getresponse().read())
        self.assertEqual(self.server.run("x", session_id="queue")["stdout"], "[1, 2]\n")

    def test_a_client_that_leaves_before_the_start_is_over(self):
        for code in ("import time; time.sleep(600)", "x = 1"):
            with self.subTest(code=code):
                self.begin(code, "gone").close()
                self.assertEqual(self.server.run("6 * 7", session_id="gone")["stdout"], "42\n")
                self.server.rpc("session.stop", session_id="gone")

    def test_errors_of_the_code_are_results(self):
        result = self.server.run("import sys; print('e', file=sys.stderr); 1/0")
        self.assertFalse(result["success"])
        self.assertEqual(result["exit_code"], 1)
        self.assertIn("e\n", result["stderr"])
        self.assertIn("ZeroDivisionError", result["stderr"])

    def test_node(self):
        result = self.server.run("[1, 2].map((n) => n * 2)", template="node")
        self.assertEqual((result["stdout"], result["template"]), ("[ 2, 4 ]\n", "node"))

    def test_commands(self):
        result = self.server.rpc("session.run_command", command="echo out; echo err >&2; exit 3")
        self.assertEqual((result["stdout"], result["stderr"]), ("out\n", "err\n"))
        self.assertEqual((result["exit_code"], result["success"]), (3, False))
        self.assertEqual(result["command"], "echo out; echo err >&2; exit 3")
        result = self.server.rpc("session.run_command", command="printf", args=["%s", "a b"])
        self.assertEqual((result["stdout"], result["args"]), ("a b", ["%s", "a b"]))

    def test_failures_have_their_family(self):
        data = self.assert_fails("session.run_code", "CODE_EXECUTION_ERROR", session_id="t",
                                 code="print(1)\nimport time; time.sleep(60)", timeout=1)
        self.assertEqual(data["context"]["error_type"], "timeout")
        self.assertEqual(data["result"]["stdout"], "1\n")
        self.assertEqual(self.server.rpc("session.get", session_id="t")["status"], "error")
        self.assertEqual(self.server.run("1", session_id="t")["stdout"], "1\n")
        self.assertEqual(self.server.rpc("session.get", session_id="t")["status"], "ready")
        data = self.assert_fails("session.run_command", "COMMAND_EXECUTION_ERROR",
                                 session_id="t", command="nosuch", args=["x"])
        self.assertEqual(data["context"]["exit_code"], 127)
        self.assert_fails("session.run_code", "SESSION_NOT_FOUND_ERROR", code="1",
                          session_id="nobody", must_exist=True)
        self.assert_fails("session.stop", "SESSION_NOT_FOUND_ERROR", session_id="nobody")
        self.assert_fails("session.touch", "SESSION_NOT_FOUND_ERROR", session_id="nobody")

    def test_wrong_requests_start_nothing(self):
        for wrong in ({"session_id": "a/b"}, {"session_id": ""}, {"session_id": "x" * 65},
                      {"template": "ruby"}, {"flavor": "huge"}, {"timeout": -1}, {"code": 1},
                      {"session_id": 5}, {"envs": ["x"]}, {"envs": "x"}, {"wait": 1}):
            with self.subTest(wrong=wrong):
                self.assert_fails("session.run_code", "INVALID_REQUEST_ERROR",
                                  **dict({"code": "1"}, **wrong))
        self.assert_fails("session.run_code", "ACCESS_DENIED_ERROR", code="1",
                          volumes=["/etc:/data"])
        self.assert_fails("session.run_code", "SANDBOX_CREATION_ERROR", code="1",
                          image="no/such-image")
        self.assertEqual(self.server.ids(), [])

    def test_output_is_cut_with_a_flag(self):
        result = self.server.run("import sys; print('a' * 5000); print('b', file=sys.stderr)",
                                 max_output_bytes=1000)
        self.assertEqual(result["stdout"], "a" * 1000)
        self.assertTrue(result["stdout_truncated"])
        self.assertEqual((result["stderr"], result["stderr_truncated"]), ("b\n", False))

    def test_new_and_changed_files_are_told(self):
        result = self.server.run("open('a.txt', 'w').write('1')", session_id="f", files=True)
        self.assertEqual([file["path"] for file in result["files"]], ["a.txt"])
        result = self.server.run(
            "import os; os.mkdir('d'); open('d/b', 'w').close(); open('a.txt', 'a').write('2')",
            session_id="f", files=True)
        self.assertEqual(sorted(file["path"] for file in result["files"]), ["a.txt", "d/b"])
        self.assertEqual(self.server.run("1", session_id="f", files=True)["files"], [])

    def test_a_client_that_leaves_frees_the_session(self):
        self.server.run("1", session_id="left")
        connection = self.begin("import time; time.sleep(600)", "left")
        soon(lambda: self.server.rpc("session.get", session_id="left")["status"] == "processing")
        connection.close()
        self.assertEqual(self.server.run("2", session_id="left")["stdout"], "2\n")


class Turns(SessionTest):
    def busy(self, session_id="busy", seconds=600):
        """A thread whose call holds the session."""
        def work():
            try:
                self.server.run(f"import time; time.sleep({seconds})", session_id=session_id)
            except RpcError:
                pass
        thread = threading.Thread(target=work)
        thread.start()
        self.addCleanup(thread.join)
        soon(lambda: self.state(session_id) == "processing")
        return thread

    def state(self, session_id):
        for session in self.server.rpc("session.list")["sessions"]:
            if session["session_id"] == session_id:
                return session["status"]
        return None

    def test_a_second_call_is_refused_or_waits(self):
        self.busy(seconds=1)
        data = self.assert_fails("session.run_code", "SESSION_BUSY_ERROR", code="1",
                                 session_id="busy", wait=False)
        self.assertEqual(data["code"], "session_busy")
        self.assertEqual(self.server.run("'later'", session_id="busy")["stdout"], "'later'\n")

    def test_waiting_calls_come_in_turn(self):
        self.server.run("seen = []", session_id="turns")
        with concurrent.futures.ThreadPoolExecutor(10) as pool:
            list(pool.map(lambda n: self.server.run(f"seen.append({n})", session_id="turns"),
                          range(10)))
        result = self.server.run("sorted(seen)", session_id="turns")
        self.assertEqual(result["stdout"], f"{list(range(10))}\n")

    def test_stopping_a_session_ends_its_call(self):
        thread = self.busy()
        self.assertEqual(self.server.rpc("session.stop", session_id="busy"), {"stopped": True})
        thread.join(PATIENCE)
        self.assertFalse(thread.is_alive())
        self.assertEqual(self.server.ids(), [])

    def test_first_calls_at_once_share_one_sandbox(self):
        with concurrent.futures.ThreadPoolExecutor(5) as pool:
            results = list(pool.map(
                lambda _: self.server.run("import os; os.getpid()", session_id="same"), range(5)))
        self.assertEqual(len({result["stdout"] for result in results}), 1)
        self.assertEqual(sum(result["session_created"] for result in results), 1)

    def test_a_sandbox_that_dies_is_replaced(self):
        self.server.run("x = 1", session_id="dead")
        name = self.server.rpc("session.get", session_id="dead")["sandbox_name"]
        subprocess.run([MSB, "stop", name], check=True, stdout=subprocess.DEVNULL)
        soon(lambda: self.state("dead") == "error")
        result = self.server.run("'x' in globals()", session_id="dead")
        self.assertEqual((result["stdout"], result["session_created"]), ("False\n", True))


class Limits(SessionTest):
    environment = {"MSB_MAX_SESSIONS": "3", "MSB_MAX_TOTAL_MEMORY_MB": "4096"}

    def test_the_least_recently_used_makes_room(self):
        for name in "a", "b", "c":
            self.server.run("1", session_id=name)
        self.server.rpc("session.touch", session_id="a")
        self.server.run("1", session_id="d")
        self.assertEqual(sorted(self.server.ids()), ["a", "c", "d"])
        statistics = self.server.rpc("session.statistics")
        self.assertEqual((statistics["active_sessions"], statistics["max_sessions"]), (3, 3))
        self.assertEqual(statistics["sessions_by_flavor"], {"small": 3})
        self.assertEqual((statistics["total_memory_mb"], statistics["total_cpus"]), (3072, 3))

    def test_a_call_at_the_limit_evicts_nobody(self):
        for name in "a", "b", "c", "a", "b", "c":
            self.server.run("1", session_id=name)
        self.assertEqual(sorted(self.server.ids()), ["a", "b", "c"])

    def test_memory_counts(self):
        self.server.run("1", session_id="a")
        self.server.run("1", session_id="b", flavor="medium")
        self.server.run("1", session_id="c", flavor="medium")
        self.assertEqual(sorted(self.server.ids()), ["b", "c"])

    def test_working_sessions_stay(self):
        calls = [threading.Thread(target=self.server.run, args=("import time; time.sleep(3)",),
                                  kwargs={"session_id": name}) for name in "abc"]
        for call in calls:
            call.start()
        states = lambda: [s["status"] for s in self.server.rpc("session.list")["sessions"]]
        soon(lambda: states() == ["processing"] * 3)
        data = self.assert_fails("session.run_code", "RESOURCE_LIMIT_ERROR", code="1",
                                 session_id="d")
        self.assertEqual(data["context"]["resource_type"], "sessions")
        self.assertEqual((data["context"]["current_usage"], data["context"]["limit"]), (3, 3))
        for call in calls:
            call.join(PATIENCE)

    def test_clients_can_be_stricter_with_themselves(self):
        own = {"group": "g", "max_sessions": 1, "evict": False}
        self.server.run("1", session_id="a", **own)
        self.assert_fails("session.run_code", "RESOURCE_LIMIT_ERROR", code="1", session_id="b",
                          **own)
        self.server.run("1", session_id="c")
        self.assertEqual(sorted(self.server.ids()), ["a", "c"])


class Ends(SessionTest):
    environment = {"MSB_SESSION_TIMEOUT": "2", "MSB_CLEANUP_INTERVAL": "1"}

    def test_idle_sessions_end_unless_touched(self):
        self.server.run("1", session_id="idle")
        self.server.run("1", session_id="touched")
        def idle_is_gone():
            self.server.rpc("session.touch", session_id="touched")
            return "idle" not in self.server.ids()
        soon(idle_is_gone)
        self.assertEqual(self.server.ids(), ["touched"])

    def test_a_working_session_is_not_idle(self):
        result = self.server.run("import time; time.sleep(4); 'done'", session_id="long")
        self.assertEqual(result["stdout"], "'done'\n")

    def test_lifetimes_end(self):
        self.server.run("1", session_id="old", lifetime=1, session_timeout=600)
        soon(lambda: not self.server.ids())

    def test_nothing_ends_while_tasks_are_paused(self):
        paused = self.server.rpc("session.tasks.pause")
        self.assertEqual(paused["tasks_paused"], ["session_cleanup", "orphan_cleanup"])
        self.assertEqual(paused["status"], "success")
        self.assertEqual(self.server.rpc("session.tasks.pause")["status"], "no_tasks_to_pause")
        self.assertEqual(self.server.rpc("session.tasks.status")["overall_status"], "unhealthy")
        self.assertEqual(self.server.rpc("session.tasks.health")["status"], "unhealthy")
        self.server.run("1", session_id="kept")
        time.sleep(4)
        self.assertEqual(self.server.ids(), ["kept"])
        # Its time is over nevertheless: whoever comes back finds a fresh one.
        self.assertTrue(self.server.run("1", session_id="kept")["session_created"])
        resumed = self.server.rpc("session.tasks.restart")
        self.assertEqual(resumed["actions_taken"], ["session_cleanup", "orphan_cleanup"])
        self.assertEqual(self.server.rpc("session.tasks.restart")["status"], "no_action_needed")
        self.assertEqual(self.server.rpc("session.tasks.status")["overall_status"], "healthy")
        soon(lambda: not self.server.ids())


class Impatience(SessionTest):
    environment = {"MSB_SANDBOX_START_TIMEOUT": "0.001"}

    def test_a_start_that_takes_too_long_is_given_up_and_undone(self):
        data = self.assert_fails("session.run_code", "SANDBOX_CREATION_ERROR", code="1",
                                 session_id="slow")
        self.assertEqual(data["original_error"], "timeout")
        self.assertEqual(data["context"]["flavor"], "small")
        self.assertEqual(self.server.ids(), [])
        soon(lambda: not self.server.rpc("sandbox.list")["sandboxes"] and not rows("slow"))


class Restarts(SessionTest):
    def test_sessions_survive_the_server(self):
        self.server.run("x = 6", session_id="kept", flavor="small", lifetime=5000)
        before = self.server.rpc("session.get", session_id="kept")
        self.server.restart()
        after = self.server.rpc("session.get", session_id="kept")
        for member in "sandbox_name", "created_at", "flavor", "template", "lifetime_seconds":
            self.assertEqual(after[member], before[member])
        result = self.server.run("x * 7", session_id="kept")
        self.assertEqual((result["stdout"], result["session_created"]), ("42\n", False))

    def test_a_kill_in_the_middle_of_a_call(self):
        self.server.run("x = 1", session_id="mid")
        def call():
            try:
                self.server.run("x = 2\nimport time\ntime.sleep(600)", session_id="mid")
            except OSError:
                pass
        thread = threading.Thread(target=call)
        thread.start()
        soon(lambda: self.server.rpc("session.get", session_id="mid")["status"] == "processing")
        self.server.restart()
        thread.join(PATIENCE)
        result = self.server.run("x", session_id="mid")
        # It may have been interrupted before its first line.
        self.assertIn(result["stdout"], ("1\n", "2\n"), result)

    def test_a_kill_in_the_middle_of_starts_leaves_nothing(self):
        def call(n):
            try:
                self.server.run("1", session_id=f"start-{n}")
            except (OSError, ValueError):
                pass
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            calls = [pool.submit(call, n) for n in range(6)]
            time.sleep(0.05)
            self.server.end(signal.SIGKILL)
            for done in calls:
                done.result()
        self.server.start()
        def nothing_is_left():
            self.server.rpc("session.orphans.clean")
            sessions = self.server.rpc("session.list")["sessions"]
            running = {box["name"] for box in self.server.rpc("sandbox.list")["sandboxes"]}
            return running == {session["sandbox_name"] for session in sessions}
        time.sleep(1)
        soon(nothing_is_left)

    def test_orphans_are_ended_and_strangers_are_not(self):
        self.server.run("1", session_id="mine")
        self.server.run("1", session_id="orphan")
        for name in "stranger", "session-0123456789abcdef":
            self.server.rpc("sandbox.start", sandbox=name, config={"image": "microsandbox/python"})
            self.addCleanup(self.server.rpc, "sandbox.stop", sandbox=name)
        orphan = self.server.rpc("session.get", session_id="orphan")["sandbox_name"]
        self.server.end()
        forget(orphan)
        self.server.start()
        self.assertEqual(self.server.ids(), ["mine"])
        self.server.rpc("session.orphans.clean")
        running = {box["name"] for box in self.server.rpc("sandbox.list")["sandboxes"]}
        self.assertNotIn(orphan, running)
        self.assertLessEqual({"stranger", "session-0123456789abcdef"}, running)
        counts = self.server.rpc("session.tasks.status")["components"]["resource_manager"]
        self.assertEqual((counts["total_orphans_cleaned"], counts["cleanup_errors"]), (1, 0))
        self.assertEqual(self.server.rpc("session.orphans.clean"), {"cleaned": 0})

    def test_shutdown_ends_all_and_reports(self):
        for name in "a", "b":
            self.server.run("1", session_id=name)
        report = self.server.rpc("session.shutdown", timeout=PATIENCE)
        self.assertEqual((report["status"], report["sessions_stopped"]), ("success", 2))
        self.assertEqual(report["components_expected"], 2)
        self.assertEqual(self.server.rpc("sandbox.list")["sandboxes"], [])


def in_store(statement, *values):
    store = sqlite3.connect(os.path.join(HOME, "server", "sessions.db"))
    try:
        with store:
            return store.execute(statement, values).fetchall()
    finally:
        store.close()


def rows(session_id):
    return in_store("SELECT sandbox FROM sandbox WHERE id = ?", session_id)


def forget(sandbox):
    """Makes the session of a sandbox a stopped one, as a server does that is killed meanwhile."""
    stopped = 4
    in_store("UPDATE sandbox SET state = ? WHERE sandbox = ?", stopped, sandbox)


class Many(SessionTest):
    environment = {"MSB_MAX_SESSIONS": "250"}

    def test_fifty_sessions_at_once(self):
        with concurrent.futures.ThreadPoolExecutor(50) as pool:
            results = list(pool.map(
                lambda n: self.server.run(f"x = {n}; x", session_id=f"s-{n}"), range(50)))
            self.assertEqual([r["stdout"] for r in results], [f"{n}\n" for n in range(50)])
            results = list(pool.map(
                lambda n: self.server.run("x * 2", session_id=f"s-{n}"), range(50)))
        self.assertEqual([r["stdout"] for r in results], [f"{n * 2}\n" for n in range(50)])
        self.assertEqual(len(self.server.ids()), 50)

    def test_no_session_waits_for_another(self):
        for name in "slow", "quick":
            self.server.run("1", session_id=name)
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            slow = pool.submit(self.server.run, "import time; time.sleep(2)", session_id="slow")
            self.server.run("1", session_id="quick")
            self.assertFalse(slow.done())
            slow.result()


class Volumes(unittest.TestCase):
    def test_shared_folders(self):
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o755)
            places = {name: os.path.join(folder, name) for name in ("in", "out", "own", "no")}
            for place in places.values():
                os.mkdir(place)
                os.chmod(place, 0o777)
            with open(os.path.join(places["in"], "text"), "w", encoding="utf-8") as file:
                file.write("hello")
            server = Server(
                MSB_SHARED_VOLUME_PATH=json.dumps([places["in"] + ":/in:ro", places["out"] + ":/out"]),
                MSB_SESSION_VOLUME_ROOTS=places["own"])
            self.addCleanup(server.end)
            self.addCleanup(server.rpc, "session.shutdown")
            self.assertEqual(server.rpc("session.volumes")["volumes"], [
                {"host_path": places["in"], "container_path": "/in"},
                {"host_path": places["out"], "container_path": "/out"}])
            server.run("open('/out/text', 'w').write(open('/in/text').read().upper())")
            with open(os.path.join(places["out"], "text"), encoding="utf-8") as file:
                self.assertEqual(file.read(), "HELLO")
            server.run("open('/own/text', 'w').close()", session_id="own",
                       volumes=[places["own"] + ":/own"])
            self.assertTrue(os.path.exists(os.path.join(places["own"], "text")))
            with self.assertRaises(RpcError) as caught:
                server.run("1", volumes=[places["no"] + ":/no"])
            self.assertEqual(caught.exception.data["error_code"], "ACCESS_DENIED_ERROR")


class Settings(unittest.TestCase):
    def test_what_is_wrong_is_told_at_the_start(self):
        for variable, value in (("MSB_MAX_SESSIONS", "many"), ("MSB_CLEANUP_INTERVAL", "5000"),
                                ("MSB_SHARED_VOLUME_PATH", "[broken")):
            done = subprocess.run([MSB, "server", "start", "--dev", "--port", "0"], text=True,
                                  env=dict(os.environ, **{variable: value}), timeout=PATIENCE,
                                  capture_output=True, check=False)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn(variable, done.stderr)
            self.assertIn(value, done.stderr)


    def test_the_log_goes_where_it_is_told_to(self):
        folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, folder)
        server = Server(MSB_LOG_FILE=os.path.join(folder, "log"), MSB_LOG_MAX_SIZE="2048",
                        MSB_LOG_BACKUP_COUNT="1")
        self.addCleanup(server.end)
        for _ in range(20):
            server.run("1", session_id="logged")
        self.assertEqual(sorted(os.listdir(folder)), ["log", "log.1"])
        with open(os.path.join(folder, "log.1"), encoding="utf-8") as log:
            lines = [json.loads(line) for line in log]
        self.assertTrue(any("default/logged" in line["message"] for line in lines), lines)
        server.rpc("session.shutdown")


class Keys(SessionTest):
    arguments = ()

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server.key = make_key("*")

    def test_sessions_belong_to_namespaces(self):
        key = make_key("red")
        def rpc(method, **params):
            return self.server.fetch("POST", "/api/v1/rpc", {
                "jsonrpc": "2.0", "id": 1, "method": method, "params": params}, key=key).json()
        self.server.run("x = 1", session_id="s")
        self.assertEqual(rpc("session.run_code", code="'x' in globals()",
                             session_id="s")["result"]["stdout"], "False\n")
        self.assertEqual(len(rpc("session.list")["result"]["sessions"]), 1)
        self.assertEqual(rpc("session.list", namespace="*")["error"]["code"], -32002)
        self.assertEqual(rpc("session.list", namespace="default")["error"]["code"], -32002)
        self.assertEqual(rpc("session.shutdown")["error"]["code"], -32002)
        self.assertEqual(rpc("session.tasks.pause")["error"]["code"], -32002)
        self.assertEqual(len(self.server.rpc("session.list", namespace="*")["sessions"]), 2)


if __name__ == "__main__":
    unittest.main()
