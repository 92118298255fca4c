"""A server for sessions with real sandboxes, which a test can kill and start again."""

import json
import os
import signal
import subprocess
import unittest
import urllib.error
import urllib.request

from http_server import MSB, PATIENCE

HOME = os.environ["MSB_HOME"]


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def json(self):
        return json.loads(self.body)


class RpcError(Exception):
    def __init__(self, error):
        super().__init__(error["message"])
        self.code, self.data = error["code"], error["data"]


def make_key(namespace):
    """A key for the server of this home."""
    return subprocess.run([MSB, "server", "keygen", "--namespace", namespace], check=True,
                          capture_output=True, text=True).stdout.strip()


class Server:
    def __init__(self, arguments=("--dev",), **environment):
        self.arguments = arguments
        self.environment = dict(os.environ, **environment)
        self.key = None
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            [MSB, "server", "start", *self.arguments, "--port", "0"],
            env=self.environment, stdout=subprocess.PIPE, text=True)
        self.url = self.process.stdout.readline().strip()
        assert self.url, "the server did not start"

    def end(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        self.process.wait(PATIENCE)
        self.process.stdout.close()

    def restart(self, number=signal.SIGKILL):
        self.end(number)
        self.start()

    def fetch(self, method, path, body=None, key=None, **headers):
        """Headers by name, with _ for -."""
        data = json.dumps(body).encode() if isinstance(body, (dict, list)) else body
        url = path if path.startswith("http") else self.url + path
        request = urllib.request.Request(url, data=data, method=method)
        if isinstance(body, (dict, list)):
            request.add_header("Content-Type", "application/json")
        if key or self.key:
            request.add_header("Authorization", f"Bearer {key or self.key}")
        for name, value in headers.items():
            request.add_header(name.replace("_", "-"), value)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE * 3) as answer:
                return Answer(answer.status, answer.headers, answer.read())
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error.code, error.headers, error.read())

    def rpc(self, method, **params):
        answer = self.fetch("POST", "/api/v1/rpc",
                            {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).json()
        if "error" in answer:
            raise RpcError(answer["error"])
        return answer["result"]

    def run(self, code, **params):
        return self.rpc("session.run_code", code=code, **params)

    def ids(self):
        return [session["session_id"] for session in self.rpc("session.list")["sessions"]]


class SessionTest(unittest.TestCase):
    """One server for the tests of a class; all sessions are gone after each."""

    arguments = ("--dev",)
    environment = {}

    @classmethod
    def setUpClass(cls):
        cls.server = Server(cls.arguments, **cls.environment)
        cls.addClassCleanup(cls.server.end)

    def tearDown(self):
        self.server.rpc("session.shutdown", timeout=PATIENCE)
        self.server.rpc("session.tasks.resume")

    def assert_fails(self, method, error_code, /, **params):
        """The error's data."""
        with self.assertRaises(RpcError) as caught:
            self.server.rpc(method, **params)
        data = caught.exception.data
        self.assertEqual(data["error_code"], error_code, data)
        for member in "message", "category", "severity", "code":
            self.assertTrue(data[member])
        self.assertTrue(data["recovery_suggestions"])
        return data
