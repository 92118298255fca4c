"""Requests that no good client sends: each is refused, and the server is none the worse for it."""

import json
import time

from http_server import PATIENCE, Connection, ServerTest

PARSE = -32700


class BadInput(ServerTest):
    def memory(self):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))

    def test_code_that_is_no_utf_8(self):
        for bytes_ in (b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xc0\x80", b"\xf5\x80\x80\x80"):
            body = (b'{"jsonrpc":"2.0","id":1,"method":"sandbox.repl.run","params":{"sandbox":"a",'
                    b'"language":"python","code":"' + bytes_ + b'"}}')
            self.assertEqual(self.post(body).json()["error"]["code"], PARSE)

    def test_halves_of_characters_by_escape(self):
        body = b'{"jsonrpc":"2.0","id":1,"method":"sandbox.list","params":{"x":"\\ud800"}}'
        self.assertEqual(self.post(body).json()["error"]["code"], PARSE)

    def test_deep_json_of_every_kind_costs_nothing(self):
        before = self.memory()
        for deep in (b"[" * 10000 + b"]" * 10000, b'{"a":' * 10000 + b"1" + b"}" * 10000,
                     b"[" * 1000000, b'[{"a":' * 5000, b'{"params":' + b"[" * 10000):
            for _ in range(5):
                self.assertEqual(self.post(deep).json()["error"]["code"], PARSE)
        self.assertLess(self.memory() - before, 20000)

    def test_long_texts_in_errors_are_cut(self):
        long = "x" * 1000000
        for params in ({"sandbox": long}, {"sandbox": "a", "namespace": long},
                       {"sandbox": "a", "config": {"image": long}},
                       {"sandbox": "a", "config": {"image": "no/such", "envs": [long]}},
                       {"sandbox": "a", "config": {"image": "no/such", "network": long}},
                       {"sandbox": "a", "config": {"image": "no/such", "engine": long}}):
            answer = self.post({"jsonrpc": "2.0", "method": "sandbox.start", "params": params})
            self.assertIn("error", answer.json())
            self.assertLess(len(answer.body), 2000)

    def test_settings_that_are_too_long_for_a_start(self):
        config = {"image": "no/such", "envs": [f"A{number}=" + "x" * 1000 for number in range(100)]}
        answer = self.rpc("sandbox.start", sandbox="a", config=config)
        self.assertEqual(answer["error"]["data"]["code"], "limit")

    def test_many_bad_requests_leave_nothing_behind(self):
        bodies = [b"{", b"[]", b'{"jsonrpc":"2.0","method":1}', json.dumps(
            {"jsonrpc": "2.0", "method": "sandbox.repl.run", "params": {"sandbox": ".."}}).encode()]
        heads = ["GET / HTTP/9.9", "POST /api/v1/rpc HTTP/1.1\r\nContent-Length: -1", "\0\0\0"]
        def barrage(count):
            for number in range(count):
                self.post(bodies[number % len(bodies)])
                with Connection(self.port) as connection:
                    connection.send(heads[number % len(heads)] + "\r\n\r\n")
                    connection.is_at_end()
                self.doCleanups()  # closes the connections
        barrage(400)
        before = self.memory()
        barrage(1000)
        self.assertLess(self.memory() - before, 1500)
        self.assertIsNone(self.process.poll())
        self.assertEqual(self.request().status, 200)


class SlowBodies(ServerTest):
    def test_slow_bodies_are_let_go_and_block_nobody(self):
        slow = [self.connect() for _ in range(10)]
        for connection in slow:
            connection.socket.settimeout(PATIENCE * 3)
            connection.send(self.head("POST", "/api/v1/rpc", "Content-Type: application/json",
                                      "Content-Length: 100"))
            connection.send(b"{")
        began = time.monotonic()
        self.assertEqual(self.request().status, 200)
        for connection in slow:
            self.assertTrue(connection.is_at_end())
        self.assertLess(time.monotonic() - began, PATIENCE * 3)
