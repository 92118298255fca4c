"""The HTTP server over real sockets: what it takes, what it refuses, and how."""

import subprocess
import time
import urllib.request

from http_server import MSB, PATIENCE, ServerTest

HEALTH = b'{"message":"Service is healthy"}'


class Taken(ServerTest):
    def test_health_answers(self):
        answer = self.request()
        self.assertEqual((answer.status, answer.body), (200, HEALTH))
        self.assertEqual(answer.headers["content-type"], "application/json")
        self.assertIn("date", answer.headers)

    def test_head_has_the_length_and_no_body(self):
        connection = self.connect()
        connection.send(self.head("HEAD") + self.head())
        self.assertEqual(connection.answer(False).headers["content-length"], str(len(HEALTH)))
        self.assertEqual(connection.answer().body, HEALTH)

    def test_pipelined_requests_are_answered_in_order(self):
        connection = self.connect()
        connection.send((self.head() + self.head("GET", "/nowhere")) * 500)
        for _ in range(500):
            self.assertEqual(connection.answer().status, 200)
            self.assertEqual(connection.answer().status, 404)

    def test_a_head_may_come_byte_by_byte(self):
        connection = self.connect()
        for byte in "\r\n" + self.head():
            connection.send(byte)
        self.assertEqual(connection.answer().status, 200)

    def test_chunked_bodies_are_put_together(self):
        connection = self.connect()
        connection.send(self.head("POST", "/api/v1/rpc", "Content-Type: application/json",
                                  "Transfer-Encoding: chunked"))
        connection.send('3;note=x\r\n{"a\r\n5\r\n": 1}\r\n0\r\nTrailer: x\r\n\r\n' + self.head())
        self.assertEqual(connection.answer().json()["error"]["code"], -32600)
        self.assertEqual(connection.answer().status, 200)

    def test_a_client_that_expects_to_be_told_is_told(self):
        connection = self.connect()
        connection.send(self.head("POST", "/api/v1/rpc", "Content-Type: application/json",
                                  "Content-Length: 2", "Expect: 100-continue"))
        self.assertEqual(connection.answer().status, 100)
        connection.send("{}")
        self.assertEqual(connection.answer().status, 200)

    def test_connection_close_closes(self):
        connection = self.connect()
        connection.send(self.head("GET", "/api/v1/health", "Connection: close"))
        self.assertEqual(connection.answer().headers["connection"], "close")
        self.assertTrue(connection.is_at_end())

    def test_http_1_0_closes_unless_asked_not_to(self):
        connection = self.connect()
        connection.send("GET /api/v1/health HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
                        "GET /api/v1/health HTTP/1.0\r\n\r\n")
        self.assertEqual(connection.answer().headers["connection"], "keep-alive")
        self.assertEqual(connection.answer().headers["connection"], "close")
        self.assertTrue(connection.is_at_end())

    def test_a_query_is_no_part_of_the_path(self):
        self.assertEqual(self.request("GET", "/api/v1/health?x=1").status, 200)


class Refused(ServerTest):
    def assert_refused(self, data, status):
        """With this status, in our shape; and the connection is over."""
        connection = self.connect()
        connection.send(data)
        answer = connection.answer()
        self.assertEqual(answer.status, status, data[:80])
        self.assertTrue(answer.json()["error"]["message"])
        self.assertEqual(answer.headers["connection"], "close")
        self.assertTrue(connection.is_at_end())

    def test_malformed_heads(self):
        line = "GET /api/v1/health HTTP/1.1\r\n"
        host = "Host: localhost\r\n"
        for head in (
            line, line + host + host, line + host + "Name : x\r\n", line + host + "nonsense\r\n",
            line + host + "A: b\r\n folded\r\n", line + " Host: localhost\r\n",
            line + host + "A:\r\n folded\r\n", line + host + "A: b\nC: d\r\n",
            line + host + "A: \x00\r\n", line + host + "A: b\rC\r\n", line + host + ": x\r\n",
            "GET  /api/v1/health HTTP/1.1\r\n" + host, "GET /api/v1/health\r\n" + host,
            "GET /a b HTTP/1.1\r\n" + host, "GET nowhere HTTP/1.1\r\n" + host,
            "G(T / HTTP/1.1\r\n" + host, "GET / FTP/1.1\r\n" + host,
            "\x16\x03\x01\x02\x00\x01\r\n",
        ):
            with self.subTest(head=head):
                self.assert_refused(head + "\r\n", 400)

    def test_other_versions(self):
        for version in ("HTTP/2.0", "HTTP/0.9", "HTTP/1.2", "HTTP/11"):
            with self.subTest(version=version):
                self.assert_refused(f"GET / {version}\r\nHost: localhost\r\n\r\n", 505)

    def test_lengths_that_conflict(self):
        for lines in (
            ("Content-Length: 2", "Content-Length: 3"), ("Content-Length: 2", "Content-Length: 2"),
            ("Content-Length: 2", "Transfer-Encoding: chunked"), ("Content-Length: -1",),
            ("Content-Length: 2, 2",), ("Content-Length: 1x",), ("Content-Length: +2",),
            ("Content-Length: 99999999999999999999999",),
        ):
            with self.subTest(lines=lines):
                self.assert_refused(self.head("POST", "/api/v1/rpc", *lines), 400)

    def test_other_encodings(self):
        for value in ("gzip", "gzip, chunked", "identity", "chunked, chunked"):
            with self.subTest(value=value):
                self.assert_refused(
                    self.head("POST", "/api/v1/rpc", f"Transfer-Encoding: {value}"), 501)

    def test_malformed_chunks(self):
        for body in ("x\r\n", "-1\r\n", "3\r\nabcd\r\n", "ffffffffffffffffff\r\n"):
            with self.subTest(body=body):
                self.assert_refused(
                    self.head("POST", "/api/v1/rpc", "Content-Type: application/json",
                              "Transfer-Encoding: chunked") + body, 400)

    def test_heads_that_are_too_large(self):
        self.assert_refused(self.head("GET", "/api/v1/health", "A: " + "x" * 20000), 431)
        self.assert_refused(self.head("GET", "/api/v1/health", *["A: x"] * 200), 431)
        self.assert_refused("x" * 20000, 431)

    def test_bodies_that_are_too_large(self):
        size = 100 << 20
        self.assert_refused(self.head("POST", "/api/v1/rpc", f"Content-Length: {size}"), 413)
        self.assert_refused(self.head("GET", "/api/v1/health", "Content-Length: 1"), 413)
        chunk = b"200000\r\n" + b" " * 0x200000 + b"\r\n"
        head = self.head("POST", "/api/v1/rpc", "Transfer-Encoding: chunked").encode()
        connection = self.connect()
        connection.send(head + chunk * 16)
        try:
            connection.send(chunk)
        except ConnectionError:
            pass
        self.assertEqual(connection.answer().status, 413)

    def test_unknown_paths_and_methods(self):
        self.assertEqual(self.request("GET", "/").status, 404)
        self.assertEqual(self.request("GET", "/api/v1/rpc/").status, 404)
        answer = self.request("GET", "/api/v1/rpc")
        self.assertEqual((answer.status, answer.headers["allow"]), (405, "POST"))
        self.assert_refused("CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n", 400)

    def test_names_of_others_in_host(self):
        for host in ("example.com", "127.0.0.1.example.com", "localhost.example.com:80", "",
                     "10.0.0.1", "127.example.com"):
            connection = self.connect()
            connection.send(f"GET /api/v1/health HTTP/1.1\r\nHost: {host}\r\n\r\n")
            self.assertEqual(connection.answer().status, 403, host)
        for host in ("localhost", f"127.0.0.1:{self.port}", "[::1]:80", "LOCALHOST:1"):
            connection = self.connect()
            connection.send(f"GET /api/v1/health HTTP/1.1\r\nHost: {host}\r\n\r\n")
            self.assertEqual(connection.answer().status, 200, host)

    def test_web_pages_of_others(self):
        for origin in ("https://example.com", "null", "http://localhost.example.com",
                       "http://127.0.0.1.example.com", "file://"):
            answer = self.request("GET", "/api/v1/health", f"Origin: {origin}")
            self.assertEqual(answer.status, 403, origin)
            self.assertNotIn("access-control-allow-origin", answer.headers)
        answer = self.request("GET", "/api/v1/health", "Origin: http://localhost:3000")
        self.assertEqual(answer.headers["access-control-allow-origin"], "http://localhost:3000")

    def test_preflights(self):
        answer = self.request("OPTIONS", "/api/v1/rpc", "Origin: http://localhost:3000",
                              "Access-Control-Request-Method: POST")
        self.assertEqual(answer.status, 204)
        self.assertIn("content-type", answer.headers["access-control-allow-headers"])
        self.assertIn("PUT", answer.headers["access-control-allow-methods"])
        self.assertEqual(answer.headers["access-control-allow-origin"], "http://localhost:3000")
        self.assertEqual(answer.headers["vary"], "Origin")
        self.assertEqual(self.request("OPTIONS", "/api/v1/rpc").status, 405)
        self.assertEqual(self.request("OPTIONS", "/api/v1/rpc", "Origin: http://evil").status, 403)


class Slow(ServerTest):
    def test_slow_senders_are_let_go_and_block_nobody(self):
        slow = [self.connect() for _ in range(20)]
        for connection in slow:
            connection.send("GET /api/v1/health HTTP/1.1\r\nHost:")
        self.assertEqual(self.request().status, 200)
        deadline = time.monotonic() + PATIENCE
        for connection in slow:
            self.assertTrue(connection.is_at_end())
        self.assertLess(time.monotonic(), deadline)

    def test_idle_connections_cost_little(self):
        def memory():
            with open(f"/proc/{self.process.pid}/status", encoding="ascii") as status:
                return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))
        connections = [self.connect() for _ in range(100)]
        before = memory()
        connections += [self.connect() for _ in range(900)]
        for connection in connections:
            connection.send(self.head())
            self.assertEqual(connection.answer().status, 200)
        self.assertLess((memory() - before) / 900, 10)


class Drain(ServerTest):
    def test_a_second_server_in_the_same_home_is_refused(self):
        second = subprocess.run([MSB, "server", "start", "--dev", "--port", "0"], text=True,
                                env=self.environment, capture_output=True, timeout=PATIENCE)
        self.assertEqual(second.returncode, 125)
        self.assertIn(f"process {self.process.pid}", second.stderr)

    def test_a_taken_port_is_told_with_its_holder(self):
        environment = dict(self.environment, MSB_HOME=self.home + "/other")
        second = subprocess.run([MSB, "server", "start", "--dev", "--port", str(self.port)],
                                env=environment, capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual(second.returncode, 125)
        self.assertIn(f"port {self.port} is taken by msb, process {self.process.pid}",
                      second.stderr)

    def test_behind_on_another_address_the_secret_stays_secret(self):
        environment = dict(self.environment, MSB_HOME=self.home + "/behind")
        secret = "a-secret-of-some-length"
        url = subprocess.run([MSB, "server", "start", "--detach", "--host", "127.0.0.2", "--port",
                              "0", "--key", secret], env=environment, text=True, check=True,
                             capture_output=True, timeout=PATIENCE).stdout
        self.addCleanup(subprocess.run, [MSB, "server", "stop"], env=environment, check=True)
        self.assertRegex(url, r"^http://127\.0\.0\.2:[0-9]+\n$")
        status = subprocess.run([MSB, "server", "status"], env=environment, text=True, check=True,
                                capture_output=True, timeout=PATIENCE).stdout
        self.assertTrue(status.startswith(url))
        process = status.split()[2].rstrip(",")
        with open(f"/proc/{process}/cmdline", encoding="utf-8") as line:
            self.assertNotIn(secret, line.read())

    def test_a_short_key_of_the_guide_is_warned_about_and_works(self):
        environment = dict(self.environment, MSB_HOME=self.home + "/short")
        secret = "mySecretKey123"
        started = subprocess.run([MSB, "server", "start", "--detach", "--port", "0", "--key", secret],
                                 env=environment, text=True, check=True, capture_output=True,
                                 timeout=PATIENCE)
        self.addCleanup(subprocess.run, [MSB, "server", "stop"], env=environment, check=True)
        self.assertIn("less than 16 characters", started.stderr)
        key = subprocess.run([MSB, "server", "keygen", "--key", secret], env=environment, text=True,
                             check=True, capture_output=True, timeout=PATIENCE).stdout.strip()
        request = urllib.request.Request(
            started.stdout.strip() + "/api/v1/rpc",
            data=b'{"jsonrpc":"2.0","id":1,"method":"sandbox.list","params":{"namespace":"any"}}',
            headers={"Authorization": "Bearer " + key, "Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            self.assertIn(b'"sandboxes"', answer.read())

    def test_no_keys_for_everybody_is_refused(self):
        second = subprocess.run([MSB, "server", "start", "--dev", "--host", "0.0.0.0"], text=True,
                                env=self.environment, capture_output=True, timeout=PATIENCE)
        self.assertEqual(second.returncode, 2)
        self.assertIn("--insecure", second.stderr)

    def test_zz_ends_with_idle_connections_open(self):
        connection = self.connect()
        connection.send(self.head())
        connection.answer()
        subprocess.run([MSB, "server", "stop"], env=self.environment, check=True, timeout=PATIENCE)
        self.assertEqual(self.process.wait(PATIENCE), 0)
        self.assertTrue(connection.is_at_end())
