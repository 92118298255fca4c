"""A server that asks for keys: which it takes, and what they are good for."""

import base64
import hashlib
import hmac
import json
import os
import pathlib
import subprocess
import time

from http_server import MSB, PATIENCE, ServerTest

AUTHENTICATION, NO_SANDBOX = -32002, -32004


def encode(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def forge(secret, header, claims):
    text = ".".join(encode(json.dumps(part).encode()) for part in (header, claims))
    signature = hmac.new(secret.encode(), text.encode(), hashlib.sha256).digest()
    return f"msb_{text}.{encode(signature)}"


class Keys(ServerTest):
    arguments = []

    def keygen(self, *options):
        made = subprocess.run([MSB, "server", "keygen", *options], env=self.environment, text=True,
                              capture_output=True, timeout=PATIENCE, check=True)
        return made.stdout.strip(), made.stderr.split()[1].rstrip(",") if made.stderr else ""

    def ask(self, key, method="sandbox.list", header="Authorization: Bearer ", **params):
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        lines = [header + key] if key is not None else []
        return self.post(body, lines=lines).json()

    def secret(self):
        return (pathlib.Path(self.home) / "server.key").read_text(encoding="ascii")

    def assert_refused(self, answer):
        self.assertEqual(answer.get("error", {}).get("code"), AUTHENTICATION, answer)

    def test_health_needs_no_key(self):
        self.assertEqual(self.request().status, 200)

    def test_a_key_is_taken_in_every_form(self):
        key, _ = self.keygen()
        for header in ("Authorization: Bearer ", "Authorization: ", "authorization: bearer ",
                       "Proxy-Authorization: Bearer "):
            self.assertEqual(self.ask(key, header=header)["result"], {"sandboxes": []})

    def test_the_key_file_is_for_its_owner_only(self):
        path = pathlib.Path(self.home) / "server.key"
        self.assertEqual(path.stat().st_mode & 0o777, 0o600)
        self.addCleanup(os.chmod, path, 0o600)
        os.chmod(path, 0o644)
        made = subprocess.run([MSB, "server", "keygen"], env=self.environment, text=True,
                              capture_output=True, timeout=PATIENCE, check=False)
        self.assertEqual((made.returncode, made.stdout), (2, ""))
        self.assertIn("can be read by others", made.stderr)

    def test_what_is_no_key_is_refused(self):
        key, _ = self.keygen()
        other = "A" if key[-5] != "A" else "B"
        for wrong in (None, "", "x", "msb_", "msb_..", "msb_a.b.c", key[4:], key + ".x", key[:-1],
                      key[:-5] + other + key[-4:], key + "=", "msb_" + "a" * 8000, key.upper()):
            with self.subTest(wrong=wrong):
                self.assert_refused(self.ask(wrong))

    def test_forged_keys_are_refused(self):
        good = {"exp": int(time.time()) + 600, "namespace": "*"}
        header = {"typ": "JWT", "alg": "HS256"}
        self.assertIn("result", self.ask(forge(self.secret(), header, good)))
        self.assert_refused(self.ask(forge("x" * 32, header, good)))
        for algorithm in ("none", "HS512", "RS256", "hs256", None):
            self.assert_refused(self.ask(forge(self.secret(), {"alg": algorithm}, good)))
        text = forge(self.secret(), {"alg": "none"}, good)
        self.assert_refused(self.ask(text.rpartition(".")[0] + "."))

    def test_claims_are_checked(self):
        header, now = {"alg": "HS256"}, int(time.time())
        for claims in ({"exp": now - 120}, {}, {"exp": str(now + 600)}, {"exp": now + 600.5}, [],
                       {"exp": now + 600, "namespace": 1},
                       {"exp": now + 600, "namespace": "x" * 64}):
            with self.subTest(claims=claims):
                self.assert_refused(self.ask(forge(self.secret(), header, claims)))
        self.assertIn("result", self.ask(forge(self.secret(), header, {"exp": now - 30})))

    def test_a_key_is_good_for_its_namespace_only(self):
        key, _ = self.keygen("--namespace", "team")
        calls = {"sandbox.start": {"config": {"image": "python"}}, "sandbox.stop": {},
                 "sandbox.pause": {}, "sandbox.resume": {}, "sandbox.list": {},
                 "sandbox.metrics.get": {},
                 "sandbox.repl.run": {"language": "python", "code": "1"},
                 "sandbox.repl.stream": {"language": "python", "code": "1"},
                 "sandbox.command.run": {"command": "ls"}, "sandbox.file.read": {"path": "x"},
                 "sandbox.file.write": {"path": "x", "content": ""},
                 "sandbox.file.list": {"path": "x"}, "sandbox.file.remove": {"path": "x"}}
        for method, params in calls.items():
            for other in ("default", "team-b", "tea"):
                with self.subTest(method=method, namespace=other):
                    self.assert_refused(self.ask(key, method, sandbox="a", namespace=other,
                                                 **params))
        for method in ("sandbox.list", "sandbox.metrics.get"):
            self.assert_refused(self.ask(key, method, namespace="*"))
        for namespace in ({}, {"namespace": "team"}):
            answer = self.ask(key, "sandbox.stop", sandbox="a", **namespace)
            self.assertEqual(answer["error"]["code"], NO_SANDBOX)
            self.assertIn("namespace team", answer["error"]["message"])

    def test_paths_ask_for_keys_too(self):
        key, _ = self.keygen("--namespace", "team")
        for rest in ("files/a", "terminal"):
            path = f"/api/v1/sandbox/{{}}/box/{rest}"
            answer = self.request("GET", path.format("team"))
            self.assertEqual((answer.status, answer.headers["www-authenticate"]), (401, "Bearer"))
            self.assertEqual(self.request("GET", path.format("team"), "Authorization: x").status,
                             401)
            for namespace, status in (("team", 404), ("default", 403), ("tea", 403)):
                answer = self.request("GET", path.format(namespace), f"Authorization: Bearer {key}")
                self.assertEqual(answer.status, status)

    def test_a_key_may_be_offered_as_a_protocol(self):
        key, _ = self.keygen()
        for offered, status in ((f"terminal, {key}", 404), (key, 404), ("terminal", 401),
                                ("terminal, msb_x.y.z", 401)):
            answer = self.request("GET", "/api/v1/sandbox/default/box/terminal",
                                  f"Sec-WebSocket-Protocol: {offered}")
            self.assertEqual(answer.status, status, offered)

    def test_ports_ask_for_keys_whatever_their_path(self):
        key, _ = self.keygen()
        for lines, status in ((), 401), ((f"Authorization: {key}",), 404):
            for path in ("/", "/api/v1/health"):
                connection = self.connect()
                connection.send(self.head("GET", path, *lines).replace(
                    "localhost", "80-box.localhost"))
                self.assertEqual(connection.answer().status, status)
            self.assertEqual(self.request("GET", "/proxy/default/box/80/", *lines).status, status)

    def test_a_key_for_all_is_good_for_all(self):
        for options in ((), ("--namespace", "*")):
            key, _ = self.keygen(*options)
            self.assertIn("result", self.ask(key, namespace="*"))
            self.assertIn("result", self.ask(key, namespace="team"))

    def test_a_revoked_key_is_worthless_at_once(self):
        key, number = self.keygen()
        other, _ = self.keygen()
        self.assertIn("result", self.ask(key))
        self.keygen("--revoke", number)
        self.assert_refused(self.ask(key))
        self.assertIn("result", self.ask(other))

    def test_lifetimes(self):
        for text in ("1s", "5m", "2h", "3d", "1w", "6mo", "1y", "12"):
            key, _ = self.keygen("--expire", text)
            self.assertIn("result", self.ask(key))
        for text in ("", "0", "-1h", "1x", "h", "1.5h", "99999999y", "1 h"):
            made = subprocess.run([MSB, "server", "keygen", "--expire", text], text=True,
                                  env=self.environment, capture_output=True, timeout=PATIENCE,
                                  check=False)
            self.assertEqual((made.returncode, made.stdout), (2, ""), text)
