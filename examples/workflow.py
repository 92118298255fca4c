#!/usr/bin/env python3
"""Start a sandbox, run code and a command in it, stop it. Needs nothing but Python.

MSB_SERVER_URL says where the server is (http://127.0.0.1:5555), MSB_API_KEY has a key for it.
"""
import json
import os
import urllib.request

URL = os.environ.get("MSB_SERVER_URL", "http://127.0.0.1:5555")
KEY = os.environ.get("MSB_API_KEY", "")


def call(method, **params):
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    headers = {"Content-Type": "application/json", "Authorization": "Bearer " + KEY}
    request = urllib.request.Request(URL + "/api/v1/rpc", body.encode(), headers)
    with urllib.request.urlopen(request) as answer:
        message = json.load(answer)
    if "error" in message:
        raise RuntimeError(message["error"]["message"])
    return message["result"]


def text_of(result):
    return "\n".join(line["text"] for line in result["output"])


def main():
    name = f"example-{os.getpid()}"
    print(call("sandbox.start", sandbox=name, config={"image": "microsandbox/python"}))
    try:
        call("sandbox.repl.run", sandbox=name, language="python", code="x = 6")
        print(text_of(call("sandbox.repl.run", sandbox=name, language="python", code="x * 7")))
        print(text_of(call("sandbox.command.run", sandbox=name, command="echo", args=["hello"])))
    finally:
        print(call("sandbox.stop", sandbox=name))


if __name__ == "__main__":
    main()
