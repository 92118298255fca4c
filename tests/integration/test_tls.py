"""The server with a certificate: HTTPS, refusals, renewed certificates."""

import http.client
import os
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import time

from http_server import MSB, PATIENCE, Connection, ServerTest
from test_http import HEALTH


def make_certificate(folder, name):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", f"/CN={name}",
                    "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
                    "-keyout", f"{folder}/{name}.key", "-out", f"{folder}/{name}.crt"],
                   check=True, capture_output=True)


class Encrypted(ServerTest):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="msb-tls-")
        for name in ("first", "second"):
            make_certificate(cls.folder, name)
        for end in ("crt", "key"):
            shutil.copy(f"{cls.folder}/first.{end}", f"{cls.folder}/used.{end}")
        cls.arguments = ["--dev", "--tls-cert", f"{cls.folder}/used.crt",
                         "--tls-key", f"{cls.folder}/used.key"]
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        shutil.rmtree(cls.folder)

    def context(self, authority="first"):
        return ssl.create_default_context(cafile=f"{self.folder}/{authority}.crt")

    def connect(self, context=None):
        context = context or self.context()
        connection = Connection(
            self.port, lambda raw: context.wrap_socket(raw, server_hostname="localhost"))
        self.addCleanup(connection.close)
        return connection

    def connect_plain(self):
        connection = Connection(self.port)
        self.addCleanup(connection.close)
        return connection

    def test_requests_are_answered(self):
        connection = self.connect()
        connection.send(self.head() * 300)
        for _ in range(300):
            self.assertEqual(connection.answer().body, HEALTH)
        connection.send(self.head("GET", "/api/v1/health", "Connection: close"))
        self.assertEqual(connection.answer().status, 200)
        self.assertTrue(connection.is_at_end())

    def test_large_bodies(self):
        answer = self.post(b" " * (20 << 20) + b"{}")
        self.assertEqual(answer.json()["error"]["code"], -32600)

    def test_bodies_that_are_too_large_are_told(self):
        self.assertEqual(self.request("POST", "/api/v1/rpc", "Content-Length: 99999999").status, 413)

    def test_protocols(self):
        context = self.context()
        context.set_alpn_protocols(["h2", "http/1.1"])
        connection = self.connect(context)
        self.assertEqual(connection.socket.selected_alpn_protocol(), "http/1.1")
        self.assertIn(connection.socket.version(), ("TLSv1.2", "TLSv1.3"))
        context = self.context()
        context.set_alpn_protocols(["h2"])
        with self.assertRaises(ssl.SSLError):
            self.connect(context)

    def test_old_versions_are_refused(self):
        context = self.context()
        context.minimum_version = ssl.TLSVersion.TLSv1
        context.maximum_version = ssl.TLSVersion.TLSv1_1
        context.set_ciphers("ALL:@SECLEVEL=0")
        with self.assertRaises(ssl.SSLError):
            self.connect(context)

    def test_plain_requests_are_told(self):
        connection = self.connect_plain()
        connection.send(self.head())
        answer = connection.answer()
        self.assertEqual(answer.status, 400)
        self.assertIn("https://", answer.json()["error"]["hint"])
        self.assertTrue(connection.is_at_end())

    def test_nonsense_is_refused(self):
        for data in (b"\x16", b"\x16\x03\x01\x00\x05hello", b"\x16" * 70000,
                     b"\x16\x03\x01\xff\xff" + b"x" * 70000):
            connection = self.connect_plain()
            try:
                connection.send(data)
                connection.socket.shutdown(socket.SHUT_WR)
            except OSError:
                pass
            try:
                connection.file.read()
            except ConnectionResetError:
                pass
        self.assertEqual(self.request().status, 200)

    def test_slow_handshakes_are_let_go(self):
        connection = self.connect_plain()
        connection.send(b"\x16\x03\x01")
        self.assertTrue(connection.is_at_end())

    def test_clients_that_leave_are_no_trouble(self):
        for _ in range(20):
            connection = self.connect()
            connection.send(self.head()[:20])
            connection.close()
        self.assertEqual(self.request().status, 200)

    def test_standard_client(self):
        client = http.client.HTTPSConnection("localhost", self.port, context=self.context(),
                                             timeout=PATIENCE)
        self.addCleanup(client.close)
        for _ in range(3):
            client.request("GET", "/api/v1/health")
            self.assertEqual(client.getresponse().read(), HEALTH)

    def test_status_tells_https(self):
        told = subprocess.run([MSB, "server", "status"], env=self.environment, text=True,
                              check=True, capture_output=True, timeout=PATIENCE).stdout
        self.assertTrue(told.startswith(f"https://127.0.0.1:{self.port}\n"))

    def test_in_the_background(self):
        environment = dict(self.environment, MSB_HOME=self.home + "/behind")
        url = subprocess.run([MSB, "server", "start", "--detach", *self.arguments, "--port", "0"],
                             env=environment, text=True, check=True, capture_output=True,
                             timeout=PATIENCE).stdout.strip()
        self.addCleanup(subprocess.run, [MSB, "server", "stop"], env=environment, check=True)
        fetched = subprocess.run(["curl", "-s", "--cacert", f"{self.folder}/first.crt",
                                  url + "/api/v1/health"], check=True, capture_output=True)
        self.assertEqual(fetched.stdout, HEALTH)

    def test_zz_a_renewed_certificate_is_taken(self):
        before = self.connect()
        for end in ("crt", "key"):
            shutil.copy(f"{self.folder}/second.{end}", f"{self.folder}/used.{end}")
        self.process.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            try:
                self.connect(self.context("second"))
                break
            except ssl.SSLError:
                time.sleep(0.05)
        before.send(self.head())
        self.assertEqual(before.answer().status, 200)
        with open(f"{self.folder}/used.crt", "w", encoding="ascii") as damaged:
            damaged.write("nonsense")
        self.process.send_signal(signal.SIGHUP)
        connection = self.connect(self.context("second"))
        connection.send(self.head())
        self.assertEqual(connection.answer().status, 200)


class WrongFiles(ServerTest):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="msb-tls-")
        self.addCleanup(shutil.rmtree, self.folder)
        make_certificate(self.folder, "good")
        make_certificate(self.folder, "other")
        subprocess.run(["openssl", "ec", "-in", f"{self.folder}/good.key", "-aes128", "-passout",
                        "pass:secret", "-out", f"{self.folder}/locked.key"], check=True,
                       capture_output=True)

    def assert_told(self, text, *arguments):
        environment = dict(self.environment, MSB_HOME=self.home + "/wrong")
        result = subprocess.run([MSB, "server", "start", "--dev", "--port", "0", *arguments],
                                env=environment, stdin=subprocess.DEVNULL, capture_output=True,
                                text=True, timeout=PATIENCE)
        self.assertEqual(result.returncode, 2)
        self.assertIn(text, result.stderr)

    def test_each_is_told(self):
        good, key = f"{self.folder}/good.crt", f"{self.folder}/good.key"
        self.assert_told("needs a certificate and its key", "--tls-cert", good)
        self.assert_told("needs a certificate and its key", "--tls-key", key)
        self.assert_told("No such file", "--tls-cert", "/nowhere", "--tls-key", key)
        self.assert_told("No such file", "--tls-cert", good, "--tls-key", "/nowhere")
        self.assert_told("no certificate", "--tls-cert", key, "--tls-key", key)
        self.assert_told("no private key", "--tls-cert", good, "--tls-key", good)
        self.assert_told("does not belong", "--tls-cert", good, "--tls-key",
                         f"{self.folder}/other.key")
        self.assert_told("passphrase", "--tls-cert", good, "--tls-key",
                         f"{self.folder}/locked.key")
        self.assertFalse(os.path.exists(self.home + "/wrong/server/info.json"))
