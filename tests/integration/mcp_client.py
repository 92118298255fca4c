"""A small client of the Model Context Protocol over pipes, for tests."""

import json
import os
import queue
import subprocess
import threading

MSB = os.environ.get("MSB_BIN", os.path.join(os.path.dirname(__file__), "../../build/msb"))
PATIENCE_S = 120 * int(os.environ.get("MSB_TEST_PATIENCE", 1))


class StdioClient:
    """Starts a server and speaks with it; every line it prints must be a message."""

    def __init__(self, *arguments, environment=None):
        self.process = subprocess.Popen(
            [MSB, "mcp", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **(environment or {})},
        )
        self.next_id = 0
        self.longest = 0  # of the lines that came
        self.answers = {}
        self.notifications = []
        self.messages = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self.longest = max(self.longest, len(line))
            self.messages.put(json.loads(line))
        self.messages.put(None)

    def send(self, message):
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()

    def begin(self, method, params=None):
        self.next_id += 1
        self.send({"id": self.next_id, "method": method, "params": params or {}})
        return self.next_id

    def wait(self, wanted):
        while wanted not in self.answers:
            message = self.messages.get(timeout=PATIENCE_S)
            if message is None:
                raise EOFError("the server has ended")
            if "id" in message:
                self.answers[message["id"]] = message
            else:
                self.notifications.append(message)
        return self.answers.pop(wanted)

    def request(self, method, params=None):
        return self.wait(self.begin(method, params))

    def initialize(self):
        answer = self.request(
            "initialize",
            {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
        )
        self.send({"method": "notifications/initialized"})
        return answer["result"]

    def call(self, tool, **arguments):
        """The result of a tool."""
        return self.request("tools/call", {"name": tool, "arguments": arguments})["result"]

    def close(self):
        """Ends it as clients do; returns the exit code."""
        self.process.stdin.close()
        try:
            return self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise


def text_of(result):
    """All texts of a result in one."""
    return "\n".join(block["text"] for block in result["content"] if block["type"] == "text")


def kinds_of(result):
    return [block["type"] for block in result["content"]]
