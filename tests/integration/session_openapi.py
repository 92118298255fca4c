"""What the server says it answers, in openapi.json, against what it answers."""

import re
import unittest

from http_server import REPOSITORY
from session_rest import BOUNDARY, PICTURE, RestTest, form

TYPES = {"string": str, "boolean": bool, "integer": int, "object": dict, "array": list,
         "null": type(None), "number": (int, float)}


class Schema:
    """As much of JSON Schema as the document uses; anything else in it is an error."""

    def __init__(self, document):
        self.document = document

    def resolve(self, part):
        while "$ref" in part:
            found = self.document
            for step in part["$ref"].removeprefix("#/").split("/"):
                found = found[step]
            part = found
        return part

    def has_type(self, value, names):
        names = names if isinstance(names, list) else [names]
        return any(isinstance(value, TYPES[name]) and
                   not (name == "integer" and isinstance(value, bool)) for name in names)

    def check(self, value, schema, where="answer"):
        schema = self.resolve(schema)
        for key, wanted in schema.items():
            getattr(self, "check_" + key.replace("-", "_"))(value, wanted, schema, where)

    def check_type(self, value, wanted, _, where):
        assert self.has_type(value, wanted), f"{where}: {value!r} is no {wanted}"

    def check_properties(self, value, wanted, schema, where):
        if not isinstance(value, dict):
            return
        for name, member in value.items():
            if name in wanted:
                self.check(member, wanted[name], f"{where}.{name}")
            else:
                assert schema.get("additionalProperties", True), f"{where}: {name} is not described"

    def check_required(self, value, wanted, _, where):
        for name in wanted:
            assert name in value, f"{where}: {name} is missing"

    def check_items(self, value, wanted, _, where):
        for index, member in enumerate(value):
            self.check(member, wanted, f"{where}[{index}]")

    def check_enum(self, value, wanted, _, where):
        assert value in wanted, f"{where}: {value!r} is none of {wanted}"

    def check_const(self, value, wanted, _, where):
        assert value == wanted, f"{where}: {value!r} is not {wanted!r}"

    def check_pattern(self, value, wanted, _, where):
        assert re.search(wanted, value), f"{where}: {value!r} does not match {wanted}"

    def check_oneOf(self, value, wanted, _, where):
        fitting = 0
        for schema in wanted:
            try:
                self.check(value, schema, where)
                fitting += 1
            except AssertionError:
                pass
        assert fitting == 1, f"{where}: {value!r} fits {fitting} of {len(wanted)}"

    def ignore(self, *_):
        pass

    check_description = check_format = check_additionalProperties = ignore


class OpenApi(RestTest):
    def setUp(self):
        self.document = self.server.fetch("GET", "/api/v1/openapi.json").json()
        self.schema = Schema(self.document)
        self.seen = set()

    def ask(self, method, path, status, body=None, session="o", query="", **headers):
        operation = self.document["paths"][path][method.lower()]
        place = path.replace("{session_id}", session) + query
        answer = self.server.fetch(method, place, body, **headers)
        self.assertEqual(answer.status, status, answer.body)
        response = self.schema.resolve(operation["responses"][str(status)])
        content = response.get("content", {})
        kind = answer.headers["Content-Type"]
        if "application/json" in content:
            self.assertEqual(kind, "application/json")
            self.schema.check(answer.json(), content["application/json"]["schema"])
        for name in response.get("headers", {}):
            self.assertIn(name, answer.headers)
        self.seen.add((method.lower(), path, str(status)))
        return answer

    def test_answers_are_as_described(self):
        base = "/api/v1/sessions/{session_id}/sandbox/"
        multipart = {"Content_Type": f"multipart/form-data; boundary={BOUNDARY}"}
        self.ask("GET", "/api/v1/health", 200)
        self.ask("GET", base + "status", 200)
        self.ask("POST", base + "start", 200, {})
        self.ask("POST", base + "start", 400, {"sandbox_type": "custom"})
        self.ask("POST", base + "start", 503, {"image": "no/image"}, session="other")
        self.ask("GET", base + "status", 200)
        self.ask("POST", base + "execute", 200, {"code": PICTURE + "\nopen('f', 'w').write('x')"})
        self.ask("POST", base + "execute", 200, {"code": PICTURE, "images": "url"})
        self.ask("POST", base + "execute", 200, {"code": "print('x' * 9)", "max_output_bytes": 3})
        self.ask("POST", base + "execute", 200, {"code": "1/0"})
        self.ask("POST", base + "execute", 400, {})
        self.ask("POST", base + "upload", 200, form(("a", b"1"), ("b", b"2")), **multipart)
        self.ask("POST", base + "upload", 200, form(("a", b"1")), **multipart)
        self.ask("POST", base + "upload", 400, form(), **multipart)
        self.ask("GET", base + "files", 200)
        self.ask("GET", base + "files", 404, query="?path=/nosuch")
        self.ask("GET", base + "files", 400, session="a.b")
        tag = self.ask("GET", base + "download", 200, query="?path=f").headers["ETag"]
        self.ask("GET", base + "download", 206, query="?path=/home/user/f", Range="bytes=0-0")
        self.ask("GET", base + "download", 304, query="?path=f", If_None_Match=tag)
        self.ask("GET", base + "download", 404, query="?path=nosuch")
        self.ask("GET", base + "download", 416, query="?path=f", Range="bytes=9-")
        self.ask("POST", base + "install", 200, {"packages": ["numpy"]})
        self.ask("POST", base + "install", 400, {"packages": []})
        self.ask("GET", "/files/{session_id}/", 200)
        self.ask("GET", "/files/{session_id}/", 404, session="nobody")
        self.ask("POST", base + "stop", 200)
        every = {(method, path) for path, item in self.document["paths"].items()
                 for method in item if method != "parameters"}
        self.assertEqual(every - {seen[:2] for seen in self.seen},
                         {("get", "/files/{session_id}/{path}")})

    def test_the_document_is_whole(self):
        self.assertEqual(self.document["openapi"], "3.1.0")
        names = set()
        def walk(part):
            if isinstance(part, dict):
                if "$ref" in part:
                    self.schema.resolve(part)
                if "operationId" in part:
                    self.assertNotIn(part["operationId"], names)
                    names.add(part["operationId"])
                    self.assertTrue(part["summary"])
                part = part.values()
            if not isinstance(part, (str, int, type(None))):
                for member in part:
                    walk(member)
        walk(self.document)

    def test_every_route_is_in_it(self):
        source = (REPOSITORY / "src" / "server" / "routes.c").read_text(encoding="utf-8")
        routes = set(re.findall(r'"(GET|POST)", "(/api/v1/sessions/[^"]+)"', source))
        described = {(method.upper(), path) for path, item in self.document["paths"].items()
                     for method in item if path.startswith("/api/v1/sessions/")}
        self.assertEqual(routes, {(m, p) for m, p in described if m != "PARAMETERS"})


if __name__ == "__main__":
    unittest.main()
