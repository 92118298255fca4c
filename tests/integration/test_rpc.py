"""JSON-RPC: requests that are wrong, each with its error. No sandbox is needed for these."""

import json
import os
import shutil
import tempfile

from http_server import ServerTest

PARSE, REQUEST, METHOD, PARAMS, INTERNAL = -32700, -32600, -32601, -32602, -32603
NO_SANDBOX = -32004


class Errors(ServerTest):
    arguments = ["--dev", "--engine", "vm"]

    def assert_error(self, answer, code):
        self.assertEqual(answer["error"]["code"], code, answer)
        self.assertNotIn("result", answer)
        self.assertTrue(answer["error"]["message"])
        self.assertTrue(answer["error"]["data"]["code"])

    def test_what_is_no_json(self):
        deep = b'{"a":' * 10000 + b"1" + b"}" * 10000
        for body in (b"", b"{", b"nonsense", b'{"a": 1} x', deep, b"[" * 10000, b'"\xff\xfe"',
                     b'{"jsonrpc": "2.0", "method": "\xc3"}', b'{"a": 1, "a": 2}', b'{"a": "\\u0000"}'):
            with self.subTest(body=body[:40]):
                answer = self.post(body)
                self.assertEqual(answer.status, 200)
                self.assert_error(answer.json(), PARSE)
                self.assertNotIn("id", answer.json())

    def test_what_is_no_request(self):
        for body in ([], [{"jsonrpc": "2.0", "method": "sandbox.list"}], 1, "x", None, {},
                     {"jsonrpc": "1.0", "method": "sandbox.list"}, {"method": "sandbox.list"},
                     {"jsonrpc": "2.0"}, {"jsonrpc": "2.0", "method": 1},
                     {"jsonrpc": "2.0", "method": "sandbox.list", "id": {}}):
            with self.subTest(body=body):
                # A bare value is no JSON text for the parser.
                code = PARSE if body in (1, "x", None) else REQUEST
                self.assert_error(self.post(json.dumps(body).encode()).json(), code)

    def test_other_types_of_content(self):
        for kind in ("text/plain", "application/jsonx", "application/x-www-form-urlencoded"):
            self.assertEqual(self.post({}, kind).status, 415)
        self.assertEqual(self.post({}, "application/json; charset=utf-8").status, 200)

    def test_unknown_methods(self):
        for method in ("", "sandbox", "sandbox.nope", "SANDBOX.LIST", "x" * 10000,
                       "ä" * 100, "x" + "ä" * 100, "a\nb"):
            self.assert_error(self.rpc(method), METHOD)

    def test_ids_come_back_as_they_were(self):
        for number in (1, -1, "text", 2**60, 1.5, None, True):
            body = {"jsonrpc": "2.0", "id": number, "method": "sandbox.list"}
            answer = self.post(body).json()
            self.assertEqual(answer, {"jsonrpc": "2.0", "id": number, "result": {"sandboxes": []}})
        self.assertNotIn("id", self.post({"jsonrpc": "2.0", "method": "sandbox.list"}).json())

    def test_names_that_cannot_be(self):
        for name in ("", ".", "..", "../x", "a/b", "/", "a" * 64, "*", "-a", ".a", "a/../b", "a\\b", "ä", "a b", "a\n",
                     1, [], {}, True):
            for method in ("sandbox.start", "sandbox.stop", "sandbox.pause", "sandbox.fork", "sandbox.repl.run",
                           "sandbox.command.run", "sandbox.file.read"):
                with self.subTest(name=name, method=method):
                    self.assert_error(self.rpc(method, sandbox=name), PARAMS)
                    self.assert_error(self.rpc(method, sandbox="a", namespace=name), PARAMS)
        for method in ("sandbox.stop", "sandbox.start", "sandbox.repl.run"):
            self.assert_error(self.rpc(method), PARAMS)

    def test_names_that_can_be(self):
        for name in ("a", "a" * 63, "Box-1", "sandbox-0A1b2C3d", "a.b", "a..b", "0_x", "a."):
            with self.subTest(name=name):
                answer = self.rpc("sandbox.stop", sandbox=name, namespace=name)
                self.assert_error(answer, NO_SANDBOX)
                self.assertIn(name, answer["error"]["message"])

    def test_params_of_wrong_types(self):
        run = {"sandbox": "a", "language": "python", "code": "1"}
        for wrong in ({"code": 1}, {"code": None}, {"language": []}, {"timeout": "1"},
                      {"timeout": 1.5}, {"timeout": -1}, {"timeout": 2**62}, {"context": 1}):
            self.assert_error(self.rpc("sandbox.repl.run", **(run | wrong)), PARAMS)
        for wrong in ({"command": 1}, {"args": "x"}, {"args": [1]}, {"cwd": 1}):
            params = {"sandbox": "a", "command": "ls"} | wrong
            self.assert_error(self.rpc("sandbox.command.run", **params), PARAMS)
        for params in ([], 1, "x"):
            body = {"jsonrpc": "2.0", "method": "sandbox.list", "params": params}
            self.assert_error(self.post(body).json(), PARAMS)

    def test_settings_that_cannot_be(self):
        for config in (1, [], {}, {"image": 1}, {"image": "python", "memory": "x"},
                       {"image": "python", "memory": 1}, {"image": "python", "cpus": -1},
                       {"image": "python", "envs": ["PATH"]}, {"image": "python", "envs": "x"},
                       {"image": "python", "ports": ["0.0.0.0:80:80"]},
                       {"image": "python", "ports": ["x"]}, {"image": "python", "ports": [1]},
                       {"image": "python", "engine": "chroot"}, {"image": "python", "engine": 1},
                       {"image": "python", "disk": 1}, {"image": "python", "processes": 1},
                       {"image": "python", "open_files": 1}, {"image": "python", "cpu_limit": 1},
                       {"image": "python", "lifetime": -1}, {"image": "python", "idle_timeout": 1.5},
                       {"image": "python", "network": "a b"}, {"image": "python", "network": []},
                       {"image": "python", "workdir": 1}, {"image": "python", "user": []},
                       {"image": "python", "volumes": "x"}, {"image": "python", "volumes": [1]}):
            with self.subTest(config=config):
                self.assert_error(self.rpc("sandbox.start", sandbox="a", config=config), PARAMS)

    def assert_denied(self, config):
        answer = self.rpc("sandbox.start", sandbox="a", config={"image": "no/such"} | config)
        self.assertEqual(answer["error"]["data"]["code"], "denied", answer)

    def test_nothing_of_the_host_is_given_away(self):
        self.assert_denied({"volumes": ["/etc:/etc"]})
        self.assert_denied({"engine": "jail"})
        for network in ("localhost:80", "host.internal:80", "127.0.0.1:80", "10.1.2.3:80",
                        "[::1]:80", "169.254.169.254:80", "public,192.168.0.1:22"):
            self.assert_denied({"network": network})

    def test_what_may_be_left_out_may_be_null(self):
        keys = ("engine", "memory", "cpus", "envs", "ports", "volumes", "network", "workdir",
                "user", "disk", "lifetime", "shell", "scripts", "depends_on", "exec")
        config = {"image": "no/such"} | dict.fromkeys(keys)
        answer = self.rpc("sandbox.start", sandbox="a", namespace=None, config=config)
        self.assertIn("no/such", answer["error"]["message"])

    def test_images_that_do_not_exist(self):
        answer = self.rpc("sandbox.start", sandbox="a", config={"image": "no/such"})
        self.assert_error(answer, INTERNAL)
        self.assertIn("no/such", answer["error"]["message"])

    def test_sandboxes_that_do_not_exist(self):
        for method, params in (("stop", {}), ("pause", {}), ("resume", {}), ("metrics.get", {}),
                               ("fork", {"name": "b"}),
                               ("repl.run", {"language": "python", "code": "1"}),
                               ("repl.stream", {"language": "python", "code": "1"}),
                               ("command.run", {"command": "ls"}),
                               ("file.read", {"path": "x"}), ("file.list", {"path": "x"}),
                               ("file.write", {"path": "x", "content": ""}),
                               ("file.remove", {"path": "x"})):
            with self.subTest(method=method):
                self.assert_error(self.rpc("sandbox." + method, sandbox="a", **params), NO_SANDBOX)

    def test_metrics_of_all(self):
        for params in ({}, {"namespace": "*"}, {"namespace": "*", "sandbox": None},
                       {"namespace": "*", "sandbox": "a"}):
            self.assertEqual(self.rpc("sandbox.metrics.get", **params)["result"], {"sandboxes": []})

    def test_the_aliases_answer(self):
        for path in ("start", "stop", "command/run"):
            data = b'{"params": {}}'
            answer = self.request("POST", "/api/v1/sandbox/" + path,
                                  "Content-Type: application/json",
                                  f"Content-Length: {len(data)}", body=data)
            self.assert_error(answer.json(), PARAMS)


class Volumes(ServerTest):
    """Folders that a server was told to let clients share, and those that only look like them."""

    @classmethod
    def setUpClass(cls):
        cls.shared = tempfile.mkdtemp(prefix="msb-shared-")
        os.mkdir(cls.shared + "/inside")
        os.mkdir(cls.shared + "-beside")
        os.symlink("/etc", cls.shared + "/link")
        cls.arguments = ["--dev", "--allow-volumes", cls.shared]
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        shutil.rmtree(cls.shared)
        os.rmdir(cls.shared + "-beside")

    def code_for(self, volume):
        config = {"image": "127.0.0.1:1/none", "volumes": [volume]}
        return self.rpc("sandbox.start", sandbox="a", config=config)["error"]["data"]["code"]

    def test_folders_below_are_shared_and_no_others(self):
        for folder in ("", "/inside", "/inside/", "/inside/..", "/./inside"):
            self.assertEqual(self.code_for(f"{self.shared}{folder}:/data:ro"), "unavailable",
                             folder)
        for folder in ("/..", "-beside", "/link", "/nowhere", "/inside/../.."):
            self.assertEqual(self.code_for(f"{self.shared}{folder}:/data"), "denied", folder)
        for volume in ("/etc:/data", "/nowhere:/data", "inside:/data", ":/data", "/", ""):
            self.assertEqual(self.code_for(volume), "denied", volume)
