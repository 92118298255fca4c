"""A server with a pool, for tests and benchmarks: requests on one connection, and what the pool has."""
import json
import os
import re
import subprocess
import tempfile
import time

from http_server import MSB, PATIENCE, Connection

NUMBERS = re.compile(r"^msb_pool_(\w+?)(?:_total)? (\d+)$", re.MULTILINE)

# A start may have to build a template, and the host may be busy.
START_SECONDS = 4.5 * PATIENCE


class PoolServer:
    def __init__(self, home, arguments=(), **settings):
        environment = dict(os.environ, MSB_HOME=home,
                           **{f"MSB_POOL_{name.upper()}": str(value) for name, value in settings.items()})
        self.home = home
        self.log = tempfile.TemporaryFile("a+")
        self.process = subprocess.Popen([MSB, "server", "start", "--dev", "--port", "0", *arguments],
                                        env=environment, stdout=subprocess.PIPE, stderr=self.log, text=True)
        self.port = int(self.process.stdout.readline().strip().rpartition(":")[2])
        self.connection = self.connect()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connection.close()
        self.process.terminate()
        self.process.wait(PATIENCE)
        self.process.stdout.close()
        self.log.close()

    @property
    def lines(self):
        """What it has told so far."""
        self.log.seek(0)
        return self.log.readlines()

    @property
    def counts(self):
        with Connection(self.port) as connection:
            connection.send("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
            return {name: int(number) for name, number in NUMBERS.findall(connection.answer().body.decode())}

    def await_counts(self, is_so, seconds=6 * PATIENCE):
        """What the pool has, once it is so."""
        deadline = time.monotonic() + seconds
        while not is_so(counts := self.counts):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{counts} {''.join(self.lines[-20:])}")
            time.sleep(0.02)
        return counts

    def connect(self):
        connection = Connection(self.port)
        connection.socket.settimeout(START_SECONDS)
        return connection

    @staticmethod
    def request(method, **params):
        """The bytes of one."""
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
        return (b"POST /api/v1/rpc HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                b"Content-Length: %d\r\n\r\n%b" % (len(body), body))

    def send(self, method, connection, **params):
        connection.send(self.request(method, **params))

    def call(self, method, connection=None, **params):
        connection = connection or self.connection
        self.send(method, connection, **params)
        answer = connection.answer()
        if answer is None and connection is self.connection:  # closed because it was idle
            connection = self.connection = self.connect()
            self.send(method, connection, **params)
            answer = connection.answer()
        answer = answer.json()
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer["result"]

    def start(self, name, connection=None, namespace="default", **config):
        config.setdefault("image", "microsandbox/python")
        return self.call("sandbox.start", connection, sandbox=name, namespace=namespace, config=config)

    def run(self, name, code, connection=None, namespace="default", language="python"):
        """What the code printed."""
        result = self.call("sandbox.repl.run", connection, sandbox=name, namespace=namespace,
                           language=language, code=code)
        return "\n".join(line["text"] for line in result["output"])

    def stop(self, name, connection=None, namespace="default"):
        return self.call("sandbox.stop", connection, sandbox=name, namespace=namespace)


def elapsed_ms(call, *args, **named):
    began = time.monotonic()
    call(*args, **named)
    return (time.monotonic() - began) * 1000
