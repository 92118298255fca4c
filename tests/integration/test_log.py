"""The log of the server: a line for each request, ids, levels, files, and no secrets."""

import json
import os
import pathlib
import subprocess
import tempfile

from http_server import MSB, PATIENCE, REPOSITORY, Connection, ServerTest

LIMIT = 10 << 20


class Log(ServerTest):
    arguments = []

    def keygen(self):
        return subprocess.run([MSB, "server", "keygen", "--namespace", "*"], text=True,
                              env=self.environment, capture_output=True, timeout=PATIENCE,
                              check=True).stdout.strip()

    def line_of(self, answer):
        wanted = answer.headers["x-request-id"]
        found = [line for line in self.log_lines() if line.get("id") == wanted]
        self.assertEqual(len(found), 1, wanted)
        return found[0]

    def test_a_request_is_one_line(self):
        key = self.keygen()
        body = {"jsonrpc": "2.0", "id": 1, "method": "sandbox.stop",
                "params": {"sandbox": "box", "namespace": "team"}}
        answer = self.post(body, lines=["Authorization: " + key])
        line = self.line_of(answer)
        expected = {"level": "info", "message": "request", "method": "POST", "path": "/api/v1/rpc",
                    "call": "sandbox.stop", "namespace": "team", "sandbox": "box", "status": 200,
                    "code": -32004, "error": "not_found", "bytes_in": len(json.dumps(body)),
                    "bytes_out": len(answer.body)}
        self.assertEqual({name: line[name] for name in expected}, expected)
        self.assertGreater(line["duration_us"], 0)
        self.assertRegex(line["time"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$")

    def test_refused_requests_are_logged(self):
        for arguments, status in ((("GET", "/nowhere"), 401), (("PUT", "/metrics"), 401),
                                  (("GET", "/x", "Content-Length: 1", "Content-Length: 2"), 400)):
            answer = self.request(*arguments)
            self.assertEqual(self.line_of(answer)["status"], answer.status)
            self.assertEqual(answer.status, status)

    def test_probes_are_not_logged_when_all_is_well(self):
        answer = self.request()
        self.assertNotIn(answer.headers["x-request-id"], self.log_text())

    def test_an_id_is_kept_if_it_is_sane(self):
        for number in ("a", "x" * 64, "0af7651916cd43dd8448eb211c80319c", "a-b_c.d:e"):
            answer = self.request("GET", "/", f"X-Request-Id: {number}")
            self.assertEqual(answer.headers["x-request-id"], number)
        for number in ("", "x" * 65, "a b", 'a"b', "{}", "a\tb", "\u00e4"):
            answer = self.request("GET", "/", f"X-Request-Id: {number}")
            self.assertRegex(answer.headers["x-request-id"], r"^[0-9a-f]{16}$")

    def test_ids_differ(self):
        connection = self.connect()
        connection.send(self.head() * 50)
        ids = {connection.answer().headers["x-request-id"] for _ in range(50)}
        self.assertEqual(len(ids), 50)

    def test_start_is_logged(self):
        first = self.log_lines()[0]
        self.assertEqual(first["message"], "the server listens")
        self.assertEqual(first["pid"], self.process.pid)

    def test_no_secret_is_logged(self):
        key = self.keygen()
        header = "Authorization: Bearer " + key
        secret = (pathlib.Path(self.home) / "server.key").read_text(encoding="ascii").strip()
        params = {"sandbox": "box", "language": "python", "code": "hush1", "command": "hush2",
                  "args": ["hush3"], "path": "/hush4", "content": "hush5",
                  "config": {"image": "no/such", "envs": ["A=hush6"]}}
        for method in ("sandbox.start", "sandbox.repl.run", "sandbox.repl.stream",
                       "sandbox.command.run", "sandbox.file.write", "sandbox.file.read", "hush7"):
            self.post({"jsonrpc": "2.0", "method": method, "params": params}, lines=[header])
        self.post(b'{"hush8": hush9', lines=[header])
        self.request("GET", "/metrics?key=hush10", header)
        self.request("GET", "/metrics", header + "x")
        text = self.log_text()
        self.assertNotIn("hush", text)
        for part in (key, secret, *key[4:].split(".")[1:]):
            self.assertNotIn(part, text)
        self.assertGreater(len(self.log_lines()), 9)

    def test_a_client_cannot_forge_lines(self):
        path = "/%0a%22" + "\"x\\" + "y" * 500
        answer = self.request("GET", path)
        line = self.line_of(answer)
        self.assertTrue(path.startswith(line.get("path", "")))


class Files(ServerTest):
    def test_a_full_file_makes_room_and_five_are_kept(self):
        for number in range(1, 8):
            self.log_text()
            with open(self.log, "r+b") as file:
                file.truncate(LIMIT)
            self.request("GET", f"/part-{number}")
            self.request("GET", f"/again-{number}")
            self.assertIn(f"/again-{number}", self.log_text())
            self.assertLess(self.log.stat().st_size, 4096)
        kept = sorted(path.name for path in pathlib.Path(self.home).glob("test.log*"))
        self.assertEqual(kept, ["test.log"] + [f"test.log.{number}" for number in range(1, 6)])

    def test_a_file_that_is_taken_away_is_made_anew(self):
        os.rename(self.log, str(self.log) + ".taken")
        self.request("GET", "/after")
        self.assertIn("/after", self.log_text())
        self.assertEqual(self.log.stat().st_mode & 0o777, 0o600)
        os.unlink(str(self.log) + ".taken")

    def follow(self, *options):
        return subprocess.Popen([MSB, "server", "log", *options], env=self.environment, text=True,
                                stdout=subprocess.PIPE)

    def test_follow_goes_on_across_files(self):
        self.request("GET", "/begin")
        with self.follow("--follow", "--tail", "1") as process:
            self.assertIn("/begin", process.stdout.readline())
            for number in range(3):
                self.request("GET", f"/one-{number}")
                self.assertIn(f"/one-{number}", process.stdout.readline())
                os.rename(self.log, str(self.log) + ".moved")
                self.request("GET", f"/two-{number}")
                self.assertIn(f"/two-{number}", process.stdout.readline())
            process.terminate()
        os.unlink(str(self.log) + ".moved")

    def test_tail(self):
        for number in range(5):
            self.request("GET", f"/tail-{number}")
        self.log_text()
        for count, first in ((1, "/tail-4"), (3, "/tail-2")):
            with self.follow("--tail", str(count)) as process:
                lines = process.stdout.read().splitlines()
            self.assertEqual(len(lines), count)
            self.assertIn(first, lines[0])
        with self.follow("--tail", "0") as process:
            self.assertEqual(process.stdout.read(), "")


class Settings(ServerTest):
    def start(self, **environment):
        home = tempfile.TemporaryDirectory(prefix="msb-log-")
        self.addCleanup(home.cleanup)
        plain = {name: value for name, value in os.environ.items() if not name.startswith("MSB_LOG")}
        with subprocess.Popen([MSB, "server", "start", "--dev", "--port", "0"], text=True,
                              env=plain | {"MSB_HOME": home.name} | environment,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            url = process.stdout.readline().strip()
            if url:
                with Connection(int(url.rpartition(":")[2])) as connection:
                    connection.send(self.head("GET", "/nowhere"))
                    connection.answer()
            process.terminate()
            return process.stderr.read(), process.wait(PATIENCE)

    def test_on_stderr_lines_are_for_people(self):
        text, _ = self.start()
        self.assertRegex(text, r"msb server: info: request id=\w+ method=GET path=/nowhere status=404")

    def test_json_on_stderr_when_asked_for(self):
        text, _ = self.start(MSB_LOG_FORMAT="json")
        self.assertEqual([json.loads(line)["message"] for line in text.splitlines()],
                         ["the server listens", "request", "the server has ended"])

    def test_levels(self):
        self.assertEqual(self.start(MSB_LOG_LEVEL="warn")[0], "")
        self.assertEqual(self.start(MSB_LOG="error")[0], "")
        self.assertIn("request", self.start(MSB_LOG_LEVEL="info", MSB_LOG="error")[0])

    def test_wrong_settings_are_refused(self):
        for setting in ({"MSB_LOG_LEVEL": "loud"}, {"MSB_LOG_FORMAT": "xml"},
                        {"MSB_LOG_FILE": "/nowhere/at/all"}):
            text, code = self.start(**setting)
            self.assertEqual(code, 2)
            self.assertIn(list(setting)[0], text)

    def test_the_variables_are_documented(self):
        text = (REPOSITORY / "docs" / "operations.md").read_text(encoding="utf-8")
        for name in ("MSB_LOG_LEVEL", "MSB_LOG_FILE", "MSB_LOG_FORMAT"):
            self.assertIn(f"`{name}`", text)
