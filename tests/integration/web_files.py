"""Files of a sandbox over HTTP: streamed in, streamed out, in parts, under conditions."""

import hashlib
import os
import time
import unittest

from http_server import PATIENCE
from web import BOX, WebTest

FILES = BOX + "/files/"
BIG = 24 << 20


class Uploads(WebTest):
    def assert_there(self, name, contents):
        digest = self.run_in_box("sha256sum", name).split()[0].lstrip("\\")
        self.assertEqual(digest, hashlib.sha256(contents).hexdigest())

    def test_bodies_become_files(self):
        contents = os.urandom(3 << 20)
        self.assertEqual(self.request("PUT", FILES + "a/b.bin", body=contents).status, 204)
        self.assert_there("a/b.bin", contents)
        self.assertEqual(self.request("PUT", FILES + "/tmp/x%20%25%0A", body=b"y").status, 204)
        self.assert_there("/tmp/x %\n", b"y")

    def test_chunks_and_empty_bodies(self):
        connection = self.connect()
        connection.send(self.head("PUT", FILES + "chunked", "Transfer-Encoding: chunked") +
                        "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n" + self.head("PUT", FILES + "empty"))
        self.assertEqual(connection.answer().status, 204)
        self.assertEqual(connection.answer().status, 204)
        self.assert_there("chunked", b"abcde")
        self.assert_there("empty", b"")

    def test_only_a_body_that_is_wanted_is_asked_for(self):
        expecting = ("Content-Length: 2", "Expect: 100-continue")
        connection = self.connect()
        connection.send(self.head("PUT", FILES + "expected", *expecting))
        self.assertEqual(connection.answer().status, 100)
        connection.send("ok")
        self.assertEqual(connection.answer().status, 204)
        self.assertEqual(
            self.request("PUT", FILES.replace("box", "nobody") + "x", *expecting).status, 404)

    def test_a_sandbox_that_takes_nothing_stops_the_client(self):
        contents = os.urandom(BIG)
        connection = self.connect()
        connection.send(self.head("PUT", FILES + "slow", f"Content-Length: {BIG}",
                                  "Expect: 100-continue"))
        self.assertEqual(connection.answer().status, 100)
        self.rpc("sandbox.pause")
        self.addCleanup(self.rpc, "sandbox.resume")
        connection.socket.settimeout(1)
        sent = 0
        try:
            while sent < BIG:
                sent += connection.socket.send(contents[sent:sent + 65536])
        except TimeoutError:
            pass
        self.assertLess(sent, BIG - (8 << 20))
        self.rpc("sandbox.resume")
        connection.socket.settimeout(PATIENCE)
        connection.send(contents[sent:])
        self.assertEqual(connection.answer().status, 204)
        self.assert_there("slow", contents)

    def test_nothing_stays_of_an_upload_that_breaks(self):
        self.run_in_box("mkdir", "-p", "broken")
        with self.connect() as connection:
            connection.send(self.head("PUT", FILES + "broken/left", "Content-Length: 1000") + "abc")
        connection = self.connect()
        connection.send(self.head("PUT", FILES + "broken/chunk", "Transfer-Encoding: chunked") +
                        "3\r\nabc\r\nnonsense\r\n")
        self.assertEqual(connection.answer().status, 400)
        deadline = time.monotonic() + PATIENCE
        while self.run_in_box("ls", "-A", "broken") and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertEqual(self.run_in_box("ls", "-A", "broken"), "")

    def test_what_cannot_be_written_is_told(self):
        answer = self.request("PUT", FILES + "/proc/nothing/x", body=b"x" * 100000)
        self.assertGreaterEqual(answer.status, 400)
        self.assertTrue(answer.json()["error"]["message"])
        self.assertEqual(self.request("PUT", FILES + "%zz", body=b"x").status, 400)
        self.assertEqual(self.request("PUT", FILES, body=b"x").status, 400)


class Downloads(WebTest):
    def setUp(self):
        self.contents = bytes(range(256)) * 8
        self.request("PUT", FILES + "down.html", body=self.contents)

    def get(self, *lines, method="GET"):
        return self.request(method, FILES + "down.html", *lines)

    def test_whole_files(self):
        answer = self.get()
        self.assertEqual((answer.status, answer.body), (200, self.contents))
        self.assertEqual(answer.headers["content-type"], "text/html; charset=utf-8")
        self.assertIn('filename="down.html"', answer.headers["content-disposition"])
        self.assertEqual(answer.headers["content-security-policy"], "sandbox")
        head = self.get(method="HEAD")
        self.assertEqual((head.headers["content-length"], head.headers["etag"]),
                         ("2048", answer.headers["etag"]))

    def test_parts(self):
        for asked, first, last in (("0-0", 0, 0), ("5-9", 5, 9), ("2000-", 2000, 2047),
                                   ("-3", 2045, 2047), ("0-99999999999999999999", 0, 2047),
                                   ("-5000", 0, 2047)):
            answer = self.get(f"Range: bytes={asked}")
            self.assertEqual((answer.status, answer.body), (206, self.contents[first:last + 1]))
            self.assertEqual(answer.headers["content-range"], f"bytes {first}-{last}/2048")

    def test_parts_that_are_none(self):
        for asked in ("2048-", "9999999999999999999999-", "-0"):
            answer = self.get(f"Range: bytes={asked}")
            self.assertEqual((answer.status, answer.headers["content-range"]),
                             (416, "bytes */2048"))
        for value in ("bytes=", "bytes=-", "bytes=5-3", "bytes=1-2,4-5", "lines=1-2", "bytes=x-",
                      "bytes=1-2x", "bytes=--1", "bytes= 1-2"):
            answer = self.get(f"Range: {value}")
            self.assertEqual((answer.status, answer.body), (200, self.contents), value)

    def test_conditions(self):
        tag = self.get().headers["etag"]
        for known in (tag, "W/" + tag, f'"other", {tag}', "*"):
            answer = self.request("GET", FILES + "down.html", f"If-None-Match: {known}")
            self.assertEqual((answer.status, answer.body), (304, b""), known)
        for known in ('"other"', tag[:-1], tag.strip('"'), ""):
            self.assertEqual(self.get(f"If-None-Match: {known}").status, 200, known)
        self.assertEqual(self.get("Range: bytes=0-1", f"If-Range: {tag}").status, 206)
        self.assertEqual(self.get("Range: bytes=0-1", 'If-Range: "other"').status, 200)
        self.request("PUT", FILES + "down.html", body=b"changed")
        self.assertEqual(self.get(f"If-None-Match: {tag}").body, b"changed")

    def test_what_is_no_plain_file(self):
        self.run_in_box("ln", "-sf", "down.html", "link")
        self.assertEqual(self.request("GET", FILES + "link").body, self.contents)
        self.assertTrue(self.request("GET", FILES + "/proc/uptime").body)
        self.assertEqual(self.request("HEAD", FILES + "/dev/zero").status, 200)
        self.assertEqual(self.request("GET", FILES + "/tmp").status, 400)
        self.assertEqual(self.request("GET", FILES + "nothing").status, 404)
        self.assertEqual(self.request("GET", FILES + "%2e%2e/%00").status, 400)

    def test_endless_files_wait_for_their_reader(self):
        def memory():
            with open(f"/proc/{os.environ['MSB_SERVER']}/status", encoding="ascii") as status:
                return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))
        before = memory()
        connection = self.connect()
        connection.send(self.head("GET", FILES + "/dev/zero"))
        self.assertTrue(connection.file.readline().startswith(b"HTTP/1.1 200"))
        self.assertEqual(self.request("GET", FILES + "down.html").status, 200)
        time.sleep(0.5)
        self.assertLess(memory() - before, 20000)


if __name__ == "__main__":
    unittest.main()
