"""A server that asks for keys: they stay with it, and do not reach the sandbox."""

import base64
import os
import unittest

from web_proxy import PROXY, ProxyTest
from websocket_client import handshake_lines

KEY = os.environ.get("MSB_KEY", "")


class Keys(ProxyTest):
    def head(self, method, path, *lines):
        if not any("uthorization" in line or "Protocol" in line for line in lines):
            lines += (f"Authorization: Bearer {KEY}",)
        return super().head(method, path, *lines)

    def headers_inside(self, *lines):
        answer = self.request("GET", PROXY + "/", *lines)
        self.assertEqual(answer.status, 200)
        self.assertNotIn(KEY.encode(), answer.body)
        return dict(answer.json()["headers"])

    def test_the_key_does_not_pass(self):
        self.assertNotIn("authorization", self.headers_inside())
        self.assertNotIn("authorization", self.headers_inside(f"Authorization: {KEY}"))

    def test_the_authorization_of_the_program_does(self):
        own = "Basic " + base64.b64encode(b"a:b").decode()
        headers = self.headers_inside(f"Proxy-Authorization: Bearer {KEY}", f"Authorization: {own}")
        self.assertEqual(headers["authorization"], own)
        self.assertNotIn("proxy-authorization", headers)

    def test_protocols_without_the_key(self):
        headers = self.headers_inside(*handshake_lines(), f"Sec-WebSocket-Protocol: a, {KEY}, b")
        self.assertEqual(headers["sec-websocket-protocol"], "a, b")
        self.assertNotIn("sec-websocket-protocol",
                         self.headers_inside(f"Sec-WebSocket-Protocol: {KEY}"))

    def test_without_a_key_there_is_nothing(self):
        self.assertEqual(self.request("GET", PROXY + "/", "Authorization: x").status, 401)


if __name__ == "__main__":
    unittest.main()
