"""Session REST and artifacts, as an application uses them."""

import base64
import os
import re
import socket
import unittest
import urllib.parse

from session_server import SessionTest, make_key

PICTURE = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()"
BOUNDARY = "----boundary"


def form(*files):
    """A body of type multipart/form-data from names and contents."""
    body = b""
    for name, contents in files:
        body += (f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="{name}"'
                 "\r\nContent-Type: application/octet-stream\r\n\r\n").encode() + contents + b"\r\n"
    return body + f"--{BOUNDARY}--\r\n".encode()


class RestTest(SessionTest):
    def route(self, name, session="r"):
        return f"/api/v1/sessions/{session}/sandbox/{name}"

    def post(self, name, body=None, **headers):
        return self.server.fetch("POST", self.route(name), body or {}, **headers)

    def execute(self, code, **params):
        answer = self.post("execute", dict(params, code=code))
        self.assertEqual(answer.status, 200, answer.body)
        return answer.json()

    def get(self, name, **query):
        return self.server.fetch("GET", self.route(name) + "?" + urllib.parse.urlencode(query))

    def upload(self, *files, **query):
        return self.server.fetch(
            "POST", self.route("upload") + "?" + urllib.parse.urlencode(query), form(*files),
            Content_Type=f"multipart/form-data; boundary={BOUNDARY}")


class Routes(RestTest):
    def test_life(self):
        self.assertEqual(self.get("status").json(), {"exists": False, "info": None})
        info = self.post("start").json()
        self.assertEqual((info["session_id"], info["sandbox_type"], info["status"]),
                         ("r", "code_interpreter", "running"))
        for member in "sandbox_id", "created_at", "last_activity":
            self.assertTrue(info[member])
        status = self.get("status").json()
        self.assertEqual((status["exists"], status["info"]["sandbox_id"]),
                         (True, info["sandbox_id"]))
        self.assertEqual(self.server.rpc("session.get", session_id="r")["lifetime_seconds"], 7200)
        self.assertEqual(self.post("stop").json(), {"status": "stopped"})
        self.assertFalse(self.get("status").json()["exists"])
        self.assertEqual(self.post("stop").json(), {"status": "stopped"})

    def test_custom_images(self):
        self.assertEqual(self.post("start", {"sandbox_type": "custom"}).status, 400)
        self.assertEqual(self.post("start", {"sandbox_type": "else"}).status, 400)
        info = self.post("start", {"sandbox_type": "custom", "image": "microsandbox/node"}).json()
        self.assertEqual(info["sandbox_type"], "custom")
        self.assertEqual(self.execute("1 + 1", language="node")["output"], "2\n")

    def test_execute_starts_by_itself(self):
        result = self.execute("x = 6\nprint('out')\nx")
        self.assertEqual(result, {"success": True, "output": "out\n6\n", "error": None,
                                  "execution_time_ms": result["execution_time_ms"],
                                  "artifacts": []})
        self.assertEqual(self.execute("x * 7")["output"], "42\n")
        failed = self.execute("print(1)\n1/0")
        self.assertEqual((failed["success"], failed["output"]), (False, "1\n"))
        self.assertIn("ZeroDivisionError", failed["error"])
        slow = self.execute("import time; time.sleep(60)", timeout=1)
        self.assertFalse(slow["success"])
        self.assertIn("timed out", slow["error"])

    def test_pictures_come_back(self):
        result = self.execute(PICTURE)
        picture, = result["artifacts"]
        self.assertEqual((picture["type"], picture["mime_type"]), ("image", "image/png"))
        kind, _, data = picture["url"].partition(",")
        self.assertEqual(kind, "data:image/png;base64")
        self.assertEqual(base64.b64decode(data, validate=True)[:8], b"\x89PNG\r\n\x1a\n")
        result = self.execute(PICTURE, images="url")
        picture, = result["artifacts"]
        fetched = self.server.fetch("GET", picture["download_url"])
        self.assertEqual(fetched.headers["Content-Type"], "image/png")
        self.assertEqual(fetched.body[:8], b"\x89PNG\r\n\x1a\n")

    def test_written_files_are_artifacts(self):
        artifact, = self.execute("open('täst one.csv', 'w').write('a,b')")["artifacts"]
        self.assertEqual((artifact["type"], artifact["path"], artifact["size_bytes"]),
                         ("file", "täst one.csv", 3))
        self.assertEqual(self.server.fetch("GET", artifact["download_url"]).body, b"a,b")

    def test_uploads_and_downloads(self):
        answer = self.upload(("data.csv", b"a,b\r\n1,2\r\n"), path="/home/user")
        self.assertEqual(answer.json(), {"path": "/home/user/data.csv", "size": 10,
                                         "is_directory": False})
        answer = self.upload(("one", b"1"), ("empty", b""), path="/home/user/sub").json()
        self.assertEqual([file["path"] for file in answer["files"]],
                         ["/home/user/sub/one", "/home/user/sub/empty"])
        big = os.urandom(3 << 20)
        raw = self.server.fetch("POST", self.route("upload") + "?path=/home/user/raw", big,
                                Content_Type="application/octet-stream")
        self.assertEqual(raw.json()["size"], len(big))
        self.assertEqual(self.upload(("again", big)).json()["size"], len(big))
        self.assertEqual(self.get("download", path="/home/user/again").body, big)
        got = self.get("download", path="/home/user/raw")
        self.assertEqual(got.body, big)
        self.assertIn('attachment; filename="raw"', got.headers["Content-Disposition"])
        part = self.server.fetch("GET", self.route("download") + "?path=/home/user/raw",
                                 Range="bytes=5-9")
        self.assertEqual((part.status, part.body), (206, big[5:10]))
        names = {entry["name"]: entry for entry in self.get("files", path="/home/user").json()}
        self.assertEqual(set(names), {"data.csv", "sub", "raw", "again"})
        self.assertTrue(names["sub"]["is_directory"])
        self.assertEqual(names["data.csv"]["size"], 10)

    def test_wrong_requests(self):
        self.post("start")
        for answer, status in ((self.post("execute", {"code": 1}), 400),
                               (self.post("execute", {}), 400),
                               (self.post("execute", b"nonsense"), 400),
                               (self.post("execute", b"[]"), 400),
                               (self.get("download"), 400),
                               (self.get("download", path="/home/user/nosuch"), 404),
                               (self.get("files", path="/nosuch"), 404),
                               (self.post("install", {"packages": []}), 400),
                               (self.post("install", {"packages": ["--x"]}), 400),
                               (self.post("install", {"packages": "x"}), 400),
                               (self.upload(("..", b"x")), 400),
                               (self.upload(), 400),
                               (self.server.fetch("GET", self.route("files", "nobody")), 404),
                               (self.server.fetch("GET", self.route("status", "a.b")), 400),
                               (self.server.fetch("GET", self.route("start")), 405)):
            self.assertEqual(answer.status, status, answer.body)
            self.assertTrue(answer.json()["error"]["message"])
            self.assertTrue(answer.json()["error"]["code"])

    def test_forms_that_are_broken(self):
        for body in (b"", b"hello", form(("a", b"1"))[:-20], b"--" + BOUNDARY.encode()):
            answer = self.server.fetch("POST", self.route("upload"), body,
                                       Content_Type=f"multipart/form-data; boundary={BOUNDARY}")
            self.assertEqual(answer.status, 400, answer.body)

    def test_a_busy_session_says_so(self):
        self.post("start")
        with self.assertRaisesRegex(TimeoutError, ""):
            connection = socket.create_connection(
                ("127.0.0.1", int(self.server.url.rpartition(":")[2])), 1)
            self.addCleanup(connection.close)
            body = b'{"code": "import time; time.sleep(600)"}'
            connection.sendall(f"POST {self.route('execute')} HTTP/1.1\r\nHost: localhost\r\n"
                               f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
            connection.recv(1)
        answer = self.post("execute", {"code": "1", "wait": False})
        self.assertEqual((answer.status, answer.json()["error"]["code"]), (409, "session_busy"))
        self.assertEqual(self.get("files").status, 200)


class Packages(RestTest):
    def test_without_a_network_it_is_told(self):
        result = self.post("install", {"packages": ["nosuchpackagexyz"], "timeout": 60}).json()
        self.assertFalse(result["success"])
        self.assertEqual(result["packages"][0]["state"], "offline")
        self.assertIn("nosuchpackagexyz", result["error"])

    def test_what_is_there_is_told(self):
        result = self.post("install", {"packages": ["numpy"], "timeout": 60}).json()
        self.assertTrue(result["success"], result)
        self.assertEqual(result["packages"][0]["state"], "present")
        self.assertIn("numpy", result["output"])


class Artifacts(RestTest):
    environment = {"MSB_MAX_UPLOAD_BYTES": "100000", "MSB_MAX_DOWNLOAD_BYTES": "1000"}

    def artifact(self, path, session="r", method="GET", **headers):
        return self.server.fetch(method, f"/files/{session}/{path}", **headers)

    def test_types_by_name_and_by_content(self):
        self.execute("open('a.html', 'w').write('<b>')\nopen('plain', 'w').write('text')\n"
                     "open('shot', 'wb').write(b'\\x89PNG\\r\\n\\x1a\\n')\n"
                     "open('blob', 'wb').write(bytes(range(256)))")
        for path, kind in (("a.html", "text/html; charset=utf-8"), ("shot", "image/png"),
                           ("plain", "text/plain; charset=utf-8"),
                           ("blob", "application/octet-stream")):
            answer = self.artifact(path)
            self.assertEqual(answer.headers["Content-Type"], kind)
            self.assertTrue(answer.headers["Content-Disposition"].startswith("inline;"))
            self.assertEqual(answer.headers["X-Content-Type-Options"], "nosniff")
            self.assertEqual(answer.headers["Content-Security-Policy"], "sandbox")

    def test_any_name_is_safe(self):
        names = ['a"b.txt', "new\nline", "ä€.txt", "sp ace", "per%41cent", "a;b=c", "back\\slash"]
        self.execute(f"for name in {names!r}: open(name, 'w').write('x')")
        listed = {a["filename"]: a for a in self.artifact("").json()["artifacts"]}
        self.assertEqual(set(listed), set(names))
        for name in names:
            answer = self.server.fetch("GET", listed[name]["download_url"])
            self.assertEqual((answer.status, answer.body), (200, b"x"), name)
            disposition = answer.headers["Content-Disposition"]
            quoted = re.fullmatch(r"inline; filename=\"([\w.-]+)\"; filename\*=UTF-8''(\S+)",
                                  disposition, re.ASCII)
            self.assertTrue(quoted, disposition)
            self.assertEqual(urllib.parse.unquote(quoted[2]), name)

    def test_nothing_outside_the_data_folder(self):
        self.execute("import os; os.symlink('/etc/passwd', 'link'); os.symlink('/etc', 'folder')\n"
                     "os.mkdir('sub'); os.symlink('../../etc/passwd', 'sub/up')")
        for path in ("/etc/passwd", "%2Fetc%2Fpasswd", "../etc/passwd", "..%2F..%2Fetc%2Fpasswd",
                     "sub/../../etc/passwd", "link", "folder/passwd", "folder/", "sub/up", "nosuch",
                     "sub/..", "%00", "a" * 5000):
            answer = self.artifact(path)
            self.assertIn(answer.status, (400, 404), path)
            self.assertNotIn(b"root:", answer.body)
        self.assertEqual(self.artifact("x", "nobody").status, 404)
        self.assertEqual(self.artifact("x", "a.b").status, 404)

    def test_limits(self):
        self.execute("open('big', 'w').write('x' * 1001); open('fits', 'w').write('x' * 1000)")
        self.assertEqual(self.artifact("big").status, 413)
        self.assertEqual(self.artifact("fits").status, 200)
        self.assertEqual(self.artifact("big", Range="bytes=0-9").status, 206)
        for answer in (self.upload(("big", b"x" * 100001)),
                       self.server.fetch("POST", self.route("upload") + "?path=/tmp/x",
                                         b"x" * 100001)):
            self.assertEqual((answer.status, answer.json()["error"]["code"]),
                             (413, "upload_too_large"))
        self.assertEqual(self.execute("import os; os.listdir('/tmp')")["output"], "[]\n")


class SignedArtifacts(RestTest):
    arguments = ()
    environment = {"MSB_ARTIFACT_URL_LIFETIME": "3600"}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server.key = make_key("*")

    def test_addresses_need_no_key_until_they_expire(self):
        artifact, = self.execute("open('a b', 'w').write('x')")["artifacts"]
        url = artifact["download_url"]
        key, self.server.key = self.server.key, None
        try:
            self.assertEqual(self.server.fetch("GET", url).body, b"x")
            for wrong in (url.partition("?")[0], url[:-1], url.replace("a%20b", "b"),
                          re.sub(r"expires=\d+", "expires=9999999999", url),
                          url.replace("namespace=default", "namespace=other"),
                          url.replace("/files/r/", "/api/v1/sessions/r/sandbox/")):
                self.assertEqual(self.server.fetch("GET", wrong).status, 401, wrong)
            self.assertEqual(self.server.fetch("GET", self.route("status")).status, 401)
        finally:
            self.server.key = key

    def test_other_namespaces_see_nothing(self):
        self.execute("open('secret', 'w').write('x')")
        other = make_key("other")
        for path, status in (("/files/r/secret", 404), ("/files/r/secret?namespace=default", 403),
                             (self.route("download") + "?path=secret", 404),
                             (self.route("files") + "?namespace=default", 403)):
            self.assertEqual(self.server.fetch("GET", path, key=other).status, status, path)


if __name__ == "__main__":
    unittest.main()
