"""GET /metrics: valid text, right figures, and nothing of a namespace that is not the key's."""

import json
import subprocess

from http_server import MSB, PATIENCE, ServerTest
import prometheus


class Metrics(ServerTest):
    arguments = []

    def keygen(self, namespace):
        made = subprocess.run([MSB, "server", "keygen", "--namespace", namespace], text=True,
                              env=self.environment, capture_output=True, timeout=PATIENCE,
                              check=True)
        return f"Authorization: Bearer {made.stdout.strip()}"

    def call(self, key, method, **params):
        self.post({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, lines=[key])

    def scrape(self, key):
        answer = self.request("GET", "/metrics", key)
        self.assertEqual(answer.headers["content-type"],
                         "text/plain; version=0.0.4; charset=utf-8")
        return prometheus.parse(answer.body.decode())

    def value(self, families, name, **labels):
        return sum(value for sample, found, value in families[name.removesuffix("_count")]["samples"]
                   if sample == name and labels.items() <= found.items())

    def test_calls_errors_times_and_bytes_are_counted(self):
        key = self.keygen("counted")
        before = self.scrape(key)
        for _ in range(3):
            self.call(key, "sandbox.stop", sandbox="none")
        self.call(key, "sandbox.list")
        after = self.scrape(key)
        for name, labels, more in (
                ("msb_calls_total", {"method": "sandbox.stop"}, 3),
                ("msb_calls_total", {"method": "sandbox.list"}, 1),
                ("msb_call_errors_total", {"code": "-32004"}, 3),
                ("msb_call_duration_seconds_count", {}, 4)):
            grown = self.value(after, name, **labels) - self.value(before, name, **labels)
            self.assertEqual(grown, more, name)
        self.assertGreater(self.value(after, "msb_received_bytes_total"), 200)
        self.assertGreater(self.value(after, "msb_sent_bytes_total"), 200)

    def call_tool(self, key, tool, **arguments):
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
            "name": tool, "arguments": arguments,
            "_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28",
                      "io.modelcontextprotocol/clientCapabilities": {}}}}).encode()
        self.request("POST", "/mcp", key, "Content-Type: application/json",
                     "Mcp-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call",
                     f"Mcp-Name: {tool}", f"Content-Length: {len(body)}", body=body)

    def test_calls_of_tools_are_counted(self):
        key, other = self.keygen("tooled"), self.keygen("other-tooled")
        self.call_tool(key, "sandbox_get_metrics")
        for arguments in ({}, {"namespace": "other-tooled"}):
            self.call_tool(key, "sandbox_stop", sandbox="none", **arguments)
        self.call_tool(key, "sandbox_run_python", code="pass", session_id="a b")
        self.call_tool(key, "no_such_tool")
        families = self.scrape(key)
        counted = {(labels["tool"], labels["outcome"]): value
                   for _, labels, value in families["msb_tool_calls_total"]["samples"]}
        self.assertEqual(counted, {("sandbox_get_metrics", "done"): 1, ("sandbox_stop", "failed"): 2,
                                   ("sandbox_run_python", "failed"): 1})
        self.assertEqual(self.scrape(other)["msb_tool_calls_total"]["samples"], [])

    def test_failed_starts_are_counted(self):
        key = self.keygen("failing")
        self.call(key, "sandbox.start", sandbox="a", config={"image": "no/such"})
        families = self.scrape(key)
        self.assertEqual(self.value(families, "msb_sandbox_start_failures_total"), 1)
        self.assertEqual(self.value(families, "msb_sandbox_starts_total"), 0)

    def test_a_key_sees_figures_of_its_namespace_only(self):
        team, other, everyone = self.keygen("team"), self.keygen("other"), self.keygen("*")
        self.call(team, "sandbox.list")
        self.call(other, "sandbox.list")
        self.call(other, "sandbox.list", namespace="team")
        families = self.scrape(team)
        seen = {labels.get("namespace") for family in families.values()
                for _, labels, _ in family["samples"]}
        self.assertEqual(seen - {None}, {"team"})
        self.assertEqual(self.value(families, "msb_calls_total"), 1)
        self.assertEqual({name for name, family in families.items() if family["samples"] and
                          not any("namespace" in labels for _, labels, _ in family["samples"])},
                         {"msb_sandboxes_starting"})
        families = self.scrape(everyone)
        for namespace in ("team", "other"):
            self.assertEqual(self.value(families, "msb_calls_total", namespace=namespace), 1)
        self.assertGreater(self.value(families, "msb_uptime_seconds"), 0)
        self.assertGreater(self.value(families, "msb_connections"), 0)
        self.assertGreater(self.value(families, "msb_http_answers_total", status="200"), 0)

    def test_without_a_key_there_is_nothing(self):
        self.assertNotIn(b"msb_", self.request("GET", "/metrics").body)

    def test_thousands_of_namespaces_do_not_fill_the_page(self):
        everyone = self.keygen("*")
        connection = self.connect()
        for number in range(400):
            body = b'{"jsonrpc":"2.0","method":"sandbox.list","params":{"namespace":"n%d"}}' % number
            connection.send(self.head("POST", "/api/v1/rpc", "Content-Type: application/json",
                                      everyone, f"Content-Length: {len(body)}").encode() + body)
            self.assertEqual(connection.answer().status, 200)
        families = self.scrape(everyone)
        named = {labels["namespace"] for _, labels, _ in families["msb_calls_total"]["samples"]}
        self.assertLess(len(named), 300)
        self.assertIn("(others)", named)
