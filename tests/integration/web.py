"""What the tests of a server with real sandboxes share: MSB_URL is the server, `box` runs in it."""

import json
import os
import unittest

from http_server import PATIENCE, Connection

PORT = int(os.environ["MSB_URL"].rpartition(":")[2])
BOX = "/api/v1/sandbox/default/box"


class WebTest(unittest.TestCase):
    def connect(self):
        connection = Connection(PORT)
        self.addCleanup(connection.close)
        return connection

    def head(self, method, path, *lines):
        return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: localhost", *lines, "", ""])

    def request(self, method, path, *lines, body=b""):
        connection = self.connect()
        if body:
            lines += (f"Content-Length: {len(body)}",)
        connection.send(self.head(method, path, *lines).encode() + body)
        return connection.answer(has_body=method != "HEAD")

    def rpc(self, method, **params):
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method,
                           "params": dict(params, sandbox="box")}).encode()
        answer = self.request("POST", "/api/v1/rpc", "Content-Type: application/json", body=body)
        return answer.json()["result"]

    def run_in_box(self, *argv):
        result = self.rpc("sandbox.command.run", command=argv[0], args=list(argv[1:]),
                          timeout=PATIENCE)
        return "\n".join(line["text"] for line in result["output"])
