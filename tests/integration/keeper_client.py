"""A client of a running keeper, for tests and benchmarks: speaks frames on its socket."""
import json
import os
import socket
import struct

from agent_harness import (CREDIT, DATA, END, EOF, OPEN, RUN, STDIN, WINDOW, decode_fields,
                           encode_fields)

STATUS, STOP, PAUSE, RESUME = 65, 66, 67, 68


class Keeper:
    def __init__(self, home, name, namespace="default"):
        self.socket = socket.socket(socket.AF_UNIX)
        folder = os.open(os.path.join(home, "sandboxes", namespace, name), os.O_PATH)
        try:
            self.socket.connect("/proc/self/fd/%d/keeper.sock" % folder)
        finally:
            os.close(folder)
        self.received = b""
        self.stream = 0

    def __enter__(self):
        return self

    def __exit__(self, *reason):
        self.socket.close()

    def send(self, kind, detail=0, payload=b""):
        self.socket.sendall(
            struct.pack("<IIBBH", len(payload), self.stream, kind, detail, 0) + payload)

    def frame(self):
        while True:
            if len(self.received) >= 12:
                length, stream, kind, detail, _ = struct.unpack_from("<IIBBH", self.received)
                if len(self.received) >= 12 + length:
                    payload = self.received[12:12 + length]
                    self.received = self.received[12 + length:]
                    return stream, kind, detail, payload
            piece = self.socket.recv(65536)
            if not piece:
                raise EOFError("the keeper closed the connection")
            self.received += piece

    def finish(self):
        """Output by channel, and the fields of the end."""
        output = {}
        while True:
            stream, kind, detail, payload = self.frame()
            if stream != self.stream:
                continue
            if kind == DATA:
                output[detail] = output.get(detail, b"") + payload
            if kind == END:
                return output, decode_fields(payload)

    def run(self, code, language="python"):
        self.stream += 1
        self.send(OPEN, RUN, encode_fields({"language": language}))
        self.send(DATA, STDIN, code.encode())
        self.send(EOF, STDIN)
        return self.finish()

    def begin(self, operation, **fields):
        self.stream += 1
        self.send(OPEN, operation, encode_fields(fields))

    def call(self, operation, data=b"", **fields):
        """Any operation, with as much input and output as there is, under credit."""
        self.begin(operation, **fields)
        data, credit, output, ended = memoryview(data), WINDOW, {}, False
        while True:
            while data and credit:
                part = data[:min(credit, 65536)]
                self.send(DATA, STDIN, bytes(part))
                credit -= len(part)
                data = data[len(part):]
            if not data and not ended:
                self.send(EOF, STDIN)
                ended = True
            stream, kind, detail, payload = self.frame()
            if stream != self.stream:
                continue
            if kind == DATA:
                output.setdefault(detail, bytearray()).extend(payload)
                self.send(CREDIT, 0, struct.pack("<I", len(payload)))
            elif kind == CREDIT:
                credit += struct.unpack("<I", payload)[0]
            elif kind == END:
                return output, decode_fields(payload)

    def ask(self, operation):
        """An operation of the keeper itself: the fields of its end."""
        self.stream += 1
        self.send(OPEN, operation)
        return self.finish()[1]

    def status(self):
        return json.loads(self.ask(STATUS)["status"])
