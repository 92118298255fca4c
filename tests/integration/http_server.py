"""A server of our own on a free port, in a home folder of its own, and raw requests to it."""

import json
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import unittest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
MSB = os.environ.get("MSB_BIN", str(REPOSITORY / "build" / "msb"))
PATIENCE = 20 * int(os.environ.get("MSB_TEST_PATIENCE", 1))


class Answer:
    def __init__(self, status, headers, body):
        self.status = status
        self.headers = headers
        self.body = body

    def json(self):
        return json.loads(self.body)


class Connection:
    def __init__(self, port, wrap=None):
        self.socket = socket.create_connection(("127.0.0.1", port), PATIENCE)
        if wrap:
            self.socket = wrap(self.socket)
        self.file = self.socket.makefile("rb")

    def close(self):
        self.file.close()
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def send(self, data):
        self.socket.sendall(data.encode() if isinstance(data, str) else data)

    def read_chunks(self):
        body = b""
        while size := int(self.file.readline(), 16):
            body += self.file.read(size)
            assert self.file.readline() == b"\r\n"
        assert self.file.readline() == b"\r\n"
        return body

    def answer(self, has_body=True):
        """The next answer; None at the end of the connection."""
        line = self.file.readline()
        if not line:
            return None
        headers = {}
        while (header := self.file.readline()) not in (b"\r\n", b""):
            name, _, value = header.decode().partition(":")
            headers[name.lower()] = value.strip()
        body = b""
        if has_body and headers.get("transfer-encoding") == "chunked":
            body = self.read_chunks()
        elif has_body:
            body = self.file.read(int(headers.get("content-length", 0)))
        return Answer(int(line.split()[1]), headers, body)

    def is_at_end(self):
        try:
            return self.file.read(1) == b""
        except ConnectionResetError:
            return True


class ServerTest(unittest.TestCase):
    arguments = ["--dev"]

    @classmethod
    def setUpClass(cls):
        cls.home = tempfile.mkdtemp(prefix="msb-http-")
        cls.log = pathlib.Path(cls.home) / "test.log"
        # Built with sanitizers, a server would keep what it has freed.
        cls.environment = dict(os.environ, MSB_HOME=cls.home, MSB_LOG_FILE=str(cls.log),
                               ASAN_OPTIONS="quarantine_size_mb=1")
        cls.process = subprocess.Popen(
            [MSB, "server", "start", *cls.arguments, "--port", "0"],
            env=cls.environment, stdout=subprocess.PIPE, text=True)
        url = cls.process.stdout.readline().strip()
        cls.port = int(url.rpartition(":")[2])

    def log_text(self):
        """What the server has logged. A line is written behind its answer: one more is awaited."""
        self.request()
        return self.log.read_text(encoding="utf-8")

    def log_lines(self):
        return [json.loads(line) for line in self.log_text().splitlines()]

    @classmethod
    def tearDownClass(cls):
        cls.process.terminate()
        cls.process.wait(PATIENCE)
        cls.process.stdout.close()
        shutil.rmtree(cls.home)

    def connect(self):
        connection = Connection(self.port)
        self.addCleanup(connection.close)
        return connection

    def head(self, method="GET", path="/api/v1/health", *lines):
        return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: localhost", *lines, "", ""])

    def request(self, *args, body=b""):
        connection = self.connect()
        connection.send(self.head(*args).encode() + body)
        return connection.answer(has_body=args[:1] != ("HEAD",))

    def post(self, body, kind="application/json", lines=()):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.request("POST", "/api/v1/rpc", f"Content-Type: {kind}",
                            f"Content-Length: {len(data)}", *lines, body=data)

    def rpc(self, method, **params):
        return self.post({"jsonrpc": "2.0", "id": 7, "method": method, "params": params}).json()
