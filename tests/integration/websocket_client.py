"""A WebSocket client that can also do what it must not."""

import base64
import hashlib
import os
import struct

GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10


def handshake_lines(key=None):
    return ["Connection: keep-alive, Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13",
            f"Sec-WebSocket-Key: {key or base64.b64encode(os.urandom(16)).decode()}"]


def accept_of(key):
    return base64.b64encode(hashlib.sha1((key + GUID).encode()).digest()).decode()


def frame(opcode, payload=b"", fin=True, masked=True, rsv=0, length_form=None):
    if isinstance(payload, str):
        payload = payload.encode()
    size = len(payload)
    form = length_form or (7 if size < 126 else 16 if size < 65536 else 64)
    head = bytes([fin << 7 | rsv << 4 | opcode])
    bit = masked << 7
    if form == 7:
        head += bytes([bit | size])
    elif form == 16:
        head += bytes([bit | 126]) + struct.pack(">H", size)
    else:
        head += bytes([bit | 127]) + struct.pack(">Q", size)
    if not masked:
        return head + payload
    mask = os.urandom(4)
    pad = (mask * (size // 4 + 1))[:size]
    body = (int.from_bytes(payload, "big") ^ int.from_bytes(pad, "big")).to_bytes(size, "big")
    return head + mask + body


class Frames:
    """Frames from a connection on which the handshake is done."""

    def __init__(self, connection):
        self.connection = connection

    def send(self, *args, **named):
        self.connection.send(frame(*args, **named))

    def receive(self):
        """The next (opcode, payload); None at the end of the connection."""
        head = self.connection.file.read(2)
        if len(head) < 2:
            return None
        assert not head[1] & 0x80, "a server must not mask"
        assert head[0] & 0x70 == 0
        size = head[1] & 0x7f
        if size == 126:
            size = struct.unpack(">H", self.connection.file.read(2))[0]
        elif size == 127:
            size = struct.unpack(">Q", self.connection.file.read(8))[0]
        return head[0] & 0xf, self.connection.file.read(size)

    def close_code(self):
        """The code of the close frame that comes, after whatever else."""
        while received := self.receive():
            if received[0] == CLOSE:
                return struct.unpack(">H", received[1][:2])[0] if received[1] else None
        return "end"
