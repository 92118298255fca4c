"""Terminals over WebSocket, and every rule of WebSocket that a client can break."""

import json
import struct
import time
import unittest

from http_server import PATIENCE
from web import BOX, WebTest
from websocket_client import (BINARY, CLOSE, CONTINUATION, PING, PONG, TEXT, Frames, accept_of,
                              frame, handshake_lines)

TERMINAL = BOX + "/terminal"
KEY = "dGhlIHNhbXBsZSBub25jZQ=="


class TerminalTest(WebTest):
    def open(self, command="cat", more="", lines=()):
        connection = self.connect()
        connection.send(self.head("GET", f"{TERMINAL}?command={command}{more}",
                                  *handshake_lines(), *lines))
        self.assertEqual(connection.answer(False).status, 101)
        return Frames(connection)

    def read_until(self, frames, text):
        seen = b""
        while text not in seen:
            opcode, payload = frames.receive()
            self.assertEqual(opcode, BINARY)
            seen += payload
        return seen

    def exit_of(self, frames):
        while received := frames.receive():
            if received[0] == TEXT:
                return json.loads(received[1])["exit"]
        return None


class Handshakes(TerminalTest):
    def test_good_ones(self):
        connection = self.connect()
        connection.send(self.head("GET", TERMINAL + "?command=true", *handshake_lines(KEY)))
        answer = connection.answer(False)
        self.assertEqual(answer.status, 101)
        self.assertEqual(answer.headers["sec-websocket-accept"], "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")
        self.assertEqual(accept_of(KEY), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=")
        self.assertNotIn("sec-websocket-protocol", answer.headers)

    def test_protocols(self):
        connection = self.connect()
        connection.send(self.head("GET", TERMINAL + "?command=true", *handshake_lines(),
                                  "Sec-WebSocket-Protocol: other, terminal"))
        self.assertEqual(connection.answer(False).headers["sec-websocket-protocol"], "terminal")

    def test_bad_ones(self):
        good = handshake_lines(KEY)
        for status, lines in (
                (426, []), (426, good[1:]), (426, good[:1] + good[2:]),
                (426, ["Connection: close"] + good[1:]), (426, good[:1] + ["Upgrade: h2c"] + good[2:]),
                (426, good[:2] + good[3:]), (426, good[:2] + ["Sec-WebSocket-Version: 8"] + good[3:]),
                (400, good[:3]), (400, good[:3] + ["Sec-WebSocket-Key: short=="]),
                (400, good[:3] + ["Sec-WebSocket-Key: " + "!" * 22 + "=="]),
                (400, good[:3] + ["Sec-WebSocket-Key: " + "a" * 24])):
            answer = self.request("GET", TERMINAL, *lines)
            self.assertEqual(answer.status, status, lines)
        self.assertEqual(self.request("GET", TERMINAL.replace("box", "nobody"), *good).status, 404)
        self.assertEqual(self.request("GET", TERMINAL, *good, "Origin: http://evil").status, 403)
        self.assertEqual(self.request("POST", TERMINAL, *good).status, 405)


class Terminals(TerminalTest):
    def test_a_shell(self):
        frames = self.open("sh", "&rows=50&cols=90")
        frames.send(BINARY, "stty size; echo $TERM\n")
        self.read_until(frames, b"50 90\r\nxterm-256color")
        frames.send(TEXT, '{"resize": [33, 44]}')
        frames.send(BINARY, "stty size; exit 3\n")
        self.read_until(frames, b"33 44")
        self.assertEqual(self.exit_of(frames), {"verdict": "exited", "exit_code": 3})
        self.assertEqual(frames.receive(), (CLOSE, struct.pack(">H", 1000)))
        frames.send(CLOSE, struct.pack(">H", 1000))
        self.assertIsNone(frames.receive())

    def test_what_is_typed_with_the_handshake_arrives(self):
        connection = self.connect()
        connection.send(self.head("GET", TERMINAL + "?command=cat", *handshake_lines()).encode()
                        + frame(BINARY, "early\n"))
        self.assertEqual(connection.answer(False).status, 101)
        self.read_until(Frames(connection), b"early")

    def test_leaving_ends_the_command(self):
        frames = self.open("exec%20-a%20left-alone%20sleep%20600")
        frames.send(PING)
        self.assertEqual(frames.receive(), (PONG, b""))
        frames.connection.close()
        deadline = time.monotonic() + PATIENCE
        while "left-alone" in self.run_in_box("ps", "ax") and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertNotIn("left-alone", self.run_in_box("ps", "ax"))

    def test_wrong_controls(self):
        for text in ("nonsense", "{}", '{"resize": [0, 1]}', '{"resize": ["a", "b"]}',
                     '{"resize": [1, 99999]}', "[" * 50000):
            frames = self.open()
            frames.send(TEXT, text)
            self.assertEqual(frames.close_code(), 1008, text[:30])

    def test_a_loud_command_waits_for_its_reader(self):
        frames = self.open("yes")
        time.sleep(0.3)
        self.assertEqual(self.request("GET", "/api/v1/health").status, 200)
        self.assertIn(b"y", frames.receive()[1])

    def test_much_input_for_a_command_that_reads_nothing(self):
        frames = self.open("stty%20raw;sleep%20600")
        frames.connection.socket.settimeout(1)
        sent, piece = 0, frame(BINARY, b"x" * 60000)
        try:
            while sent < 64 << 20:
                sent += frames.connection.socket.send(piece)
        except TimeoutError:
            pass
        self.assertLess(sent, 32 << 20)


class Rules(TerminalTest):
    def assert_closed(self, code, *parts):
        frames = self.open("stty%20-echo;cat")
        frames.connection.send(b"".join(parts))
        self.assertEqual(frames.close_code(), code, parts)
        self.assertIsNone(frames.receive())

    def test_pings_are_answered_also_between_fragments(self):
        frames = self.open()
        frames.connection.send(frame(BINARY, "a", fin=False) + frame(PING, "hello") +
                               frame(CONTINUATION, "b\n"))
        self.assertEqual(frames.receive(), (PONG, b"hello"))
        self.read_until(frames, b"ab")

    def test_frames_byte_by_byte(self):
        frames = self.open()
        for byte in frame(BINARY, "slow\n"):
            frames.connection.send(bytes([byte]))
        self.read_until(frames, b"slow")

    def test_broken_frames(self):
        for part in (frame(BINARY, "a", masked=False), frame(BINARY, "a", rsv=1),
                     frame(BINARY, "a", rsv=4), frame(3, "a"), frame(11, "a"),
                     frame(CONTINUATION, "a"), frame(PING, "a", fin=False),
                     frame(PING, "a" * 126), frame(BINARY, "a", length_form=16),
                     frame(BINARY, "a", length_form=64), frame(CLOSE, "a"),
                     b"\x82\xff\xff" + b"\xff" * 7 + b"mask"):
            with self.subTest(part=part):
                self.assert_closed(1002, part)
        self.assert_closed(1002, frame(BINARY, "a", fin=False), frame(BINARY, "b"))

    def test_text_that_is_none(self):
        for text in (b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"abc\xe2\x82"):
            self.assert_closed(1007, frame(TEXT, text))
        self.assert_closed(1007, frame(TEXT, b"\xe2", fin=False), frame(CONTINUATION, b"x"))

    def test_messages_that_are_too_large(self):
        self.assert_closed(1009, frame(BINARY, b"x" * 70000))
        self.assert_closed(1009, *[frame(BINARY if i == 0 else CONTINUATION, b"x" * 30000, fin=False)
                                   for i in range(3)])
        self.assert_closed(1009, frame(BINARY, b"", fin=False),
                           frame(CONTINUATION, b"x", fin=False) * 5000)

    def test_closing(self):
        for code in (1000, 1001, 1003, 1011, 3000, 4999):
            frames = self.open()
            frames.send(CLOSE, struct.pack(">H", code) + b"bye")
            self.assertEqual(frames.close_code(), code)
            self.assertIsNone(frames.receive())
        frames = self.open()
        frames.send(CLOSE)
        self.assertIsNone(frames.close_code())
        for code in (0, 999, 1004, 1005, 1006, 1015, 2999, 5000):
            self.assert_closed(1002, frame(CLOSE, struct.pack(">H", code)))
        self.assert_closed(1007, frame(CLOSE, struct.pack(">H", 1000) + b"\xff"))

    def test_pings_without_end_do_not_fill_the_server(self):
        frames = self.open()
        frames.connection.socket.settimeout(1)
        sent, piece = 0, frame(PING, "x" * 125) * 500
        try:
            while sent < 128 << 20:
                sent += frames.connection.socket.send(piece)
        except TimeoutError:
            pass
        self.assertLess(sent, 128 << 20)


if __name__ == "__main__":
    unittest.main()
