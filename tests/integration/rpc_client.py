"""Calls to a server, for tests: MSB_SERVER_URL says where it is."""

import http.client
import json
import os
import urllib.parse


class Failed(Exception):
    """The call has an error instead of a result."""

    def __init__(self, error):
        super().__init__(error["message"])
        self.code = error["code"]
        self.name = error["data"]["code"]


class Client:
    """One connection, kept open."""

    def __init__(self, url=None):
        address = urllib.parse.urlsplit(url or os.environ["MSB_SERVER_URL"])
        self.connection = http.client.HTTPConnection(address.hostname, address.port, timeout=60)

    def close(self):
        self.connection.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def get(self, path):
        self.connection.request("GET", path)
        return self.connection.getresponse().read().decode()

    def call(self, method, **params):
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        self.connection.request("POST", "/api/v1/rpc", body, {"Content-Type": "application/json"})
        answer = json.loads(self.connection.getresponse().read())
        if "error" in answer:
            raise Failed(answer["error"])
        return answer["result"]

    def run(self, sandbox, code):
        result = self.call("sandbox.repl.run", sandbox=sandbox, language="python", code=code)
        return "\n".join(line["text"] for line in result["output"])
