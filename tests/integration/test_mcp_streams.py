"""Streams of events that clients leave: they can come back for the rest, within limits."""

import http.client
import json
import os
import subprocess
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
MSB = os.environ.get("MSB_BIN", os.path.join(HERE, "../../build/msb"))
FIXTURE = os.path.join(os.path.dirname(MSB), "tests/mcp-fixture")
KEPT = 128
PATIENCE_S = 30


@unittest.skipUnless(os.path.exists(FIXTURE), "the fixture of tests/mcp is not built")
class Streams(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.fixture = subprocess.Popen([FIXTURE, os.path.join(HERE, "../mcp/fixture.json")],
                                       stdout=subprocess.PIPE, text=True)
        cls.address = cls.fixture.stdout.readline().strip().split("/")[2]

    @classmethod
    def tearDownClass(cls):
        cls.fixture.terminate()
        cls.fixture.wait(PATIENCE_S)
        cls.fixture.stdout.close()

    def setUp(self):
        with self.send("POST", {"id": 1, "method": "initialize", "params": {
                "protocolVersion": "2025-11-25", "capabilities": {},
                "clientInfo": {"name": "test", "version": "1"}}}) as answer:
            answer.read()
            self.headers = {"Mcp-Session-Id": answer.headers["Mcp-Session-Id"]}

    headers = {}

    def send(self, method, message=None, **headers):
        connection = http.client.HTTPConnection(self.address, timeout=PATIENCE_S)
        body = json.dumps({"jsonrpc": "2.0", **message}) if message else None
        connection.request(method, "/mcp", body, {
            "Content-Type": "application/json", "Accept": "application/json, text/event-stream",
            "Connection": "close", **self.headers,
            **{name.replace("_", "-"): value for name, value in headers.items()}})
        return connection.getresponse()

    def leave(self, number):
        """Begins a call, leaves at its first event and tells that event's name."""
        with self.send("POST", {"id": number, "method": "tools/call", "params": {
                "name": "test_tool_with_progress", "_meta": {"progressToken": number}}}) as stream:
            return stream.readline().decode().removeprefix("id: ").strip()

    def rest(self, event):
        """What a client gets that comes back: the status, and the messages behind the event."""
        with self.send("GET", Last_Event_ID=event) as answer:
            lines = answer.read().decode().splitlines()
            return answer.status, [json.loads(line[6:]) for line in lines if line.startswith("data: ")]

    def test_a_client_comes_back_for_the_rest(self):
        event = self.leave(5)
        status, messages = self.rest(event)
        self.assertEqual(status, 200)
        self.assertEqual(messages[-1]["id"], 5)
        self.assertEqual([message["method"] for message in messages[:-1]], ["notifications/progress"] * 3)
        self.assertEqual(self.rest(event), (204, []))

    def test_those_that_nobody_comes_back_for_are_bounded(self):
        events = [self.leave(number) for number in range(KEPT + 20)]
        status, messages = self.rest(events[-1])
        self.assertEqual((status, messages[-1]["id"]), (200, KEPT + 19))
        self.assertEqual(self.rest(events[0]), (204, []))
        status, messages = self.rest(events[-2])
        self.assertEqual((status, messages[-1]["id"]), (200, KEPT + 18))
