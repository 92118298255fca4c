"""The methods, their document and docs/api.md say the same."""

import re

from http_server import REPOSITORY, ServerTest

PARAMS = -32602
WRONG = {"string": 1, "integer": "x", "boolean": "x", "array": "x", "object": "x"}
ALSO_WRONG = {"string": [], "integer": 1.5, "boolean": 0, "array": [1], "object": []}


class OpenRpc(ServerTest):
    def document(self):
        return self.request("GET", "/api/v1/openrpc.json").json()

    def methods(self):
        return {method["name"]: method for method in self.document()["methods"]}

    def test_the_document_is_whole(self):
        document = self.document()
        self.assertEqual(document, self.rpc("rpc.discover")["result"])
        self.assertRegex(document["openrpc"], r"^1\.\d+\.\d+$")
        self.assertTrue(document["info"]["title"] and document["info"]["version"])
        for method in document["methods"]:
            self.assertEqual(method["paramStructure"], "by-name")
            self.assertIn("schema", method["result"])
            names = [param["name"] for param in method["params"]]
            self.assertEqual(len(names), len(set(names)), method["name"])
            for param in method["params"]:
                self.assertTrue(param["description"] and param["schema"], param)
        codes = {error["code"] for error in document["components"]["errors"].values()}
        text = (REPOSITORY / "docs" / "api.md").read_text(encoding="utf-8")
        self.assertEqual(codes, {-int(code) for code in re.findall(r"^\| −(32\d+) \|", text, re.M)})

    def test_every_method_is_documented_with_its_parameters(self):
        text = (REPOSITORY / "docs" / "api.md").read_text(encoding="utf-8")
        table = text[text.index("| method |"):text.index("`output` is a list")]
        rows = {}
        for line in table.splitlines()[2:]:
            cells = line.split("|")
            for name in re.findall(r"`([a-z.]+\.[a-z]+)`", cells[1] if len(cells) > 2 else ""):
                rows[name] = cells[2]
        methods = {name: method for name, method in self.methods().items()
                   if not name.startswith("session.")}
        self.assertEqual(sorted(rows), sorted(methods))
        for name, method in methods.items():
            if "the same" in rows[name]:
                continue
            for param in method["params"]:
                if param["name"] not in ("sandbox", "namespace", "user", "cwd"):
                    self.assertIn(f"`{param['name']}`", rows[name], name)
        config = text[text.index("| `config` |"):]
        for member in methods["sandbox.start"]["params"][-1]["schema"]["properties"]:
            self.assertIn(f"| `{member}` |", config)

    def test_methods_of_sessions_are_documented(self):
        text = (REPOSITORY / "docs" / "sessions.md").read_text(encoding="utf-8")
        for name, method in self.methods().items():
            if name.startswith("session."):
                for word in (name, *(param["name"] for param in method["params"])):
                    self.assertIn(f"`{word}`", text)

    def test_the_types_of_the_document_are_those_that_are_checked(self):
        for name, method in self.methods().items():
            good = {"sandbox": "a", "path": "x", "content": "", "code": "1", "language": "python",
                    "command": "ls", "session_id": "a", "name": "b"}
            for param in method["params"]:
                kind = param["schema"]["type"]
                for value in (WRONG[kind], ALSO_WRONG[kind]):
                    with self.subTest(method=name, param=param["name"], value=value):
                        error = self.rpc(name, **(good | {param["name"]: value}))["error"]
                        self.assertEqual(error["code"], PARAMS)
                        self.assertIn(param["name"], error["message"])
                if param["required"]:
                    absent = {key: value for key, value in good.items() if key != param["name"]}
                    for without in (absent, good | {param["name"]: None}):
                        self.assertEqual(self.rpc(name, **without)["error"]["code"], PARAMS, name)
