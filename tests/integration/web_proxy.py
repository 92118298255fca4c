"""Ports inside a sandbox through the server: what passes, what does not, what breaks only itself."""

import hashlib
import json
import os
import pathlib
import time
import unittest

import inside_server
from http_server import PATIENCE
from web import BOX, PORT, WebTest

PROXY = "/proxy/default/box/8000"
HOST = f"8000-box.localhost:{PORT}"


class ProxyTest(WebTest):
    @classmethod
    def setUpClass(cls):
        test = cls("setUp")
        program = pathlib.Path(inside_server.__file__).read_bytes()
        test.request("PUT", BOX + "/files/inside_server.py", body=program)
        test.run_in_box("sh", "-c", "python3 inside_server.py >/dev/null 2>&1 &")
        deadline = time.monotonic() + PATIENCE
        while test.request("GET", PROXY + "/").status != 200 and time.monotonic() < deadline:
            time.sleep(0.05)
        test.doCleanups()

    @classmethod
    def tearDownClass(cls):
        test = cls("setUp")
        test.run_in_box("pkill", "-f", "inside_server.py")
        test.doCleanups()

    def by_host(self, method="GET", path="/", *lines, host=HOST):
        return self.head(method, path, *lines).replace("Host: localhost", f"Host: {host}")

    def raw(self, name):
        return self.request("GET", f"{PROXY}/raw/{name}")


class Passed(ProxyTest):
    def echo(self, *args, **named):
        answer = self.request(*args, **named)
        self.assertEqual(answer.status, 200, answer.body)
        told = answer.json()
        told["headers"] = dict(told["headers"])
        return told

    def test_the_head(self):
        told = self.echo("GET", PROXY + "/a/b%2fc?x=1&y=%20", "X-Own: z", "Cookie: a=b",
                         "Connection: keep-alive, X-Hop", "X-Hop: 1", "TE: trailers",
                         "X-Forwarded-For: 9.9.9.9", "Keep-Alive: 5", "Authorization: Basic abc")
        self.assertEqual(told["line"], "GET /a/b%2fc?x=1&y=%20 HTTP/1.1")
        headers = told["headers"]
        for name, value in {"host": "localhost:8000", "x-own": "z", "x-forwarded-for": "127.0.0.1",
                            "x-forwarded-host": "localhost", "x-forwarded-proto": "http",
                            "x-forwarded-prefix": PROXY, "connection": "close",
                            "authorization": "Basic abc"}.items():
            self.assertEqual(headers.get(name), value, name)
        for name in ("x-hop", "te", "keep-alive", "cookie", "content-length", "transfer-encoding"):
            self.assertNotIn(name, headers)

    def test_every_method(self):
        for method in ("GET", "POST", "PUT", "DELETE", "PATCH", "PROPFIND"):
            self.assertTrue(self.echo(method, PROXY + "/")["line"].startswith(method + " / "))
        self.assertEqual(self.request("TRACE", PROXY + "/").status, 400)

    def test_bodies(self):
        body = os.urandom(5 << 20)
        told = self.echo("POST", PROXY + "/", body=body)
        self.assertEqual(told["digest"], hashlib.sha256(body).hexdigest())
        self.assertEqual(told["headers"]["content-length"], str(len(body)))
        connection = self.connect()
        connection.send(self.head("POST", PROXY + "/", "Transfer-Encoding: chunked"))
        for _ in range(300):
            connection.send(b"1000\r\n" + b"x" * 4096 + b"\r\n")
        connection.send("0\r\n\r\n" + self.head("GET", PROXY + "/second"))
        told = connection.answer().json()
        self.assertEqual(told["digest"], hashlib.sha256(b"x" * 4096 * 300).hexdigest())
        self.assertEqual(connection.answer().json()["line"], "GET /second HTTP/1.1")

    def test_a_client_that_expects_to_be_told(self):
        connection = self.connect()
        connection.send(self.head("POST", PROXY + "/", "Content-Length: 2", "Expect: 100-continue"))
        self.assertEqual(connection.answer().status, 100)
        connection.send("ok")
        self.assertEqual(connection.answer().json()["size"], 2)

    def test_answers_and_the_connection_goes_on(self):
        connection = self.connect()
        for name, status, body in (("to-the-end", 200, b"until the end"), ("old", 200, b"old"),
                                   ("continue", 201, b"ok"), ("trailer", 200, b"abc"),
                                   ("none", 204, b""), ("unchanged", 304, b""),
                                   ("too-long", 200, b"four")):
            connection.send(self.head("GET", f"{PROXY}/raw/{name}"))
            answer = connection.answer(has_body=status != 304)
            self.assertEqual((answer.status, answer.body), (status, body), name)
        connection.send(self.head("HEAD", PROXY + "/big") + self.head("GET", PROXY + "/big"))
        self.assertEqual(connection.answer(False).headers["content-length"], str(1 << 24))
        self.assertEqual(connection.answer().body, bytes(range(256)) * (1 << 16))

    def test_headers_of_answers(self):
        headers = self.raw("hops").headers
        self.assertEqual(headers["x-stay"], "c")
        self.assertTrue(headers["content-security-policy"].startswith("sandbox "))
        for name in ("x-hop", "keep-alive", "set-cookie", "connection"):
            self.assertNotIn(name, headers)
        self.assertNotEqual(headers["date"], "f")
        self.assertEqual(self.raw("redirect").headers["location"], PROXY + "/login?x=1")

    def test_a_missing_slash(self):
        answer = self.request("GET", PROXY + "?a=b")
        self.assertEqual((answer.status, answer.headers["location"]), (308, PROXY + "/?a=b"))

    def test_endless_answers_wait_for_their_reader_and_end_with_him(self):
        connection = self.connect()
        connection.send(self.head("GET", PROXY + "/endless"))
        self.assertTrue(connection.file.readline().startswith(b"HTTP/1.1 200"))
        self.assertEqual(self.request("GET", PROXY + "/").status, 200)
        connection.close()

    def test_a_program_that_reads_nothing_stops_its_client(self):
        connection = self.connect()
        connection.send(self.head("POST", PROXY + "/deaf", f"Content-Length: {1 << 30}"))
        connection.socket.settimeout(1)
        sent = 0
        try:
            while sent < 256 << 20:
                sent += connection.socket.send(b"x" * 65536)
        except TimeoutError:
            pass
        self.assertLess(sent, 64 << 20)
        self.assertEqual(self.request("GET", PROXY + "/").status, 200)

    def test_upgrades(self):
        for head in (self.head("GET", PROXY + "/upgrade", "Connection: Upgrade", "Upgrade: shout"),
                     self.by_host("GET", "/upgrade", "Connection: Upgrade", "Upgrade: shout")):
            connection = self.connect()
            connection.send(head + "early\n")
            answer = connection.answer(False)
            self.assertEqual((answer.status, answer.headers["upgrade"]), (101, "shout"))
            self.assertEqual(answer.headers["x-own"], "yes")
            self.assertEqual(connection.file.readline(), b"ready\n")
            self.assertEqual(connection.file.readline(), b"EARLY\n")
            connection.send(b"x" * 300000 + b"\n")
            self.assertEqual(connection.file.readline(), b"X" * 300000 + b"\n")
            connection.send("bye\n")
            self.assertTrue(connection.is_at_end())


class ByName(ProxyTest):
    def ask(self, *args, **named):
        connection = self.connect()
        connection.send(self.by_host(*args, **named))
        return connection.answer()

    def test_names(self):
        for host in (HOST, "8000-box.localhost", "8000-box.default.localhost", "8000-BOX.LOCALHOST"):
            answer = self.ask("GET", "/api/v1/health", "Cookie: a=b", host=host.replace("BOX", "box"))
            told = answer.json()
            self.assertEqual(told["line"], "GET /api/v1/health HTTP/1.1")
            self.assertIn(["cookie", "a=b"], told["headers"])
            self.assertNotIn("content-security-policy", answer.headers)

    def test_other_names(self):
        for host, status in (("8000-nobody.localhost", 404), ("8000-box.other.localhost", 404),
                             ("box.localhost", 403), ("8000-box.example.com", 403),
                             ("x8000-box.localhost", 403), ("-box.localhost", 403),
                             ("99999-box.localhost", 400), ("0-box.localhost", 400),
                             ("8000-.localhost", 404), ("8000-box..localhost", 404)):
            self.assertEqual(self.ask(host=host).status, status, host)

    def test_its_cookies_and_redirects_are_its_own(self):
        self.assertEqual(self.ask("GET", "/raw/hops").headers["set-cookie"], "d=e")
        self.assertEqual(self.ask("GET", "/raw/redirect").headers["location"], "/login?x=1")

    def test_its_pages_may_not_use_the_api(self):
        origin = f"Origin: http://{HOST}"
        self.assertEqual(self.ask("GET", "/", origin).status, 200)
        self.assertEqual(self.request("GET", "/api/v1/health", origin).status, 403)
        self.assertEqual(self.request("GET", PROXY + "/", "Origin: null").status, 403)
        self.assertEqual(self.ask("GET", "/", "Origin: http://9000-box.localhost").status, 403)


class Refused(ProxyTest):
    def test_what_is_not_there(self):
        for path, status in (("/proxy/default/nobody/8000/", 404), ("/proxy/other/box/8000/", 404),
                             ("/proxy/default/box/8001/", 502), ("/proxy/default/box/0/", 400),
                             ("/proxy/default/box/65536/", 400), ("/proxy/default/box/+80/", 400),
                             ("/proxy/default/box/80x/", 400), ("/proxy/default/..%2f/80/", 400),
                             ("/proxy/default/../80/", 400), ("/proxy/", 404)):
            answer = self.request("GET", path)
            self.assertEqual(answer.status, status, path)
            self.assertTrue(answer.json()["error"]["message"])
        self.assertIn("start the server",
                      self.request("GET", "/proxy/default/box/8001/").json()["error"]["hint"])

    def test_broken_answers_are_told(self):
        for name in ("nothing", "nonsense", "endless-head", "endless-line", "two-lengths",
                     "length-and-chunks", "control", "bad-name", "unasked-101", "status-999",
                     "many-continues", "half-head"):
            connection = self.connect()
            connection.send(self.head("GET", f"{PROXY}/raw/{name}"))
            answer = connection.answer()
            self.assertEqual(answer.status, 502, name)
            self.assertTrue(json.loads(answer.body)["error"]["message"])
            connection.send(self.head("GET", "/api/v1/health"))
            self.assertEqual(connection.answer().status, 200, name)

    def test_answers_that_break_later_end_the_connection(self):
        for name in ("half-body", "half-chunk", "bad-chunk"):
            connection = self.connect()
            connection.send(self.head("GET", f"{PROXY}/raw/{name}"))
            data = b""
            try:
                while piece := connection.socket.recv(65536):
                    data += piece
            except ConnectionResetError:
                pass
            self.assertTrue(data.startswith(b"HTTP/1.1 200"), name)
            self.assertFalse(data.endswith(b"0\r\n\r\n"), name)

    def test_broken_bodies(self):
        connection = self.connect()
        connection.send(self.head("POST", PROXY + "/silent", "Transfer-Encoding: chunked") +
                        "3\r\nabc\r\nxyz\r\n")
        self.assertEqual(connection.answer().status, 400)

    def test_too_many_at_once(self):
        waiting = [self.connect() for _ in range(512)]
        for connection in waiting:
            connection.send(self.head("GET", PROXY + "/silent"))
        deadline = time.monotonic() + PATIENCE
        while self.request("GET", PROXY + "/").status != 503 and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertEqual(self.request("GET", PROXY + "/").status, 503)
        self.assertEqual(self.run_in_box("echo", "still here"), "still here")
        for connection in waiting:
            connection.close()
        while self.request("GET", PROXY + "/").status != 200 and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertEqual(self.request("GET", PROXY + "/").status, 200)

    def test_clients_that_leave(self):
        for _ in range(30):
            with self.connect() as connection:
                connection.send(self.head("POST", PROXY + "/silent", "Content-Length: 10") + "abc")
        self.assertEqual(self.request("GET", PROXY + "/").status, 200)


if __name__ == "__main__":
    unittest.main()
