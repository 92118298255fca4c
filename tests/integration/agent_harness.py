"""The host's side of the agent protocol, for tests: speaks frames over a socketpair with an agent
that is the first process of fresh namespaces. The numbers are those of src/proto."""
import json
import os
import select
import socket
import struct
import subprocess
import time

HELLO, OPEN, DATA, EOF, CREDIT, CONTROL, EVENT, END = range(1, 9)
EXEC, RUN, ADOPT, QUIESCE, SHUTDOWN = range(1, 6)
(FILE_READ, FILE_WRITE, FILE_STAT, FILE_LIST, FILE_MAKE, FILE_REMOVE, FILE_RENAME,
 FILE_COPY, FILE_WATCH, FILE_CHANGES) = range(6, 16)
CONTEXT_MAKE, CONTEXT_LIST, CONTEXT_RESTART, CONTEXT_REMOVE = range(16, 20)
PROCESS_LIST, PROCESS_ATTACH, PROCESS_SIGNAL, PROCESS_INPUT = range(20, 24)
CONNECT, ACCEPT, METRICS, HOLD, CLOCK = range(24, 29)
STDIN, STDOUT, STDERR, RESULTS = range(4)
WINDOW = 256 * 1024
HANGS = 60  # what takes so many seconds

TAGS = (
    "version kernel arg env cwd user timeout_ms pty rows cols term language entropy realtime_us "
    "name volume config signal cancel pid verdict exit_code duration_us error_code message hint "
    "state_lost status path target offset length mode append parents recursive depth limit "
    "context count keep detach close port output_limit output_bytes processes open_files killed "
    "beneath rehearsal address host"
).split()
NUMBER = {name: index + 1 for index, name in enumerate(TAGS)}
NUMERIC = {"version", "pid", "exit_code", "signal", "duration_us", "state_lost", "count", "output_bytes",
           "offset", "pty", "rows", "cols"}


def encode_fields(fields):
    """fields: name=value, lists repeat the tag, numbers become u64."""
    out = b""
    for name, values in fields.items():
        for value in values if isinstance(values, list) else [values]:
            if isinstance(value, int):
                value = struct.pack("<Q", value)
            elif isinstance(value, str):
                value = value.encode()
            out += struct.pack("<BI", NUMBER[name], len(value)) + value
    return out


def decode_fields(payload):
    fields, at = {}, 0
    while at < len(payload):
        tag, length = struct.unpack_from("<BI", payload, at)
        value = payload[at + 5:at + 5 + length]
        name = TAGS[tag - 1]
        fields[name] = struct.unpack("<Q", value)[0] if name in NUMERIC else value.decode()
        at += 5 + length
    return fields


class Operation:
    """One stream: collects what arrives until its END."""

    def __init__(self, agent, stream):
        self.agent = agent
        self.stream = stream
        self.output = {STDOUT: bytearray(), STDERR: bytearray(), RESULTS: bytearray()}
        self.pieces = []
        self.events = 0
        self.ended = set()
        self.pid = None
        self.event = None
        self.end = None
        self.send_credit = WINDOW
        self.auto_credit = True
        self.received = 0

    @property
    def stdout(self):
        return self.output[STDOUT]

    @property
    def stderr(self):
        return self.output[STDERR]

    def records(self):
        """Those that have arrived as a whole."""
        data, at, found = self.output[RESULTS], 0, []
        while len(data) - at >= 4:
            length = struct.unpack_from("<I", data, at)[0]
            if len(data) - at - 4 < length:
                break
            found.append(json.loads(data[at + 4:at + 4 + length]))
            at += 4 + length
        return found

    def send(self, data):
        """Sends to stdin, waiting for credit as the protocol demands."""
        while data:
            self.agent.pump_until(lambda: self.send_credit > 0 or self.end is not None)
            if self.end is not None:
                return
            part = data[:min(self.send_credit, 65536)]
            self.send_credit -= len(part)
            self.agent.frame(self.stream, DATA, STDIN, part)
            data = data[len(part):]

    def eof(self):
        self.agent.frame(self.stream, EOF, STDIN)

    def control(self, **fields):
        self.agent.frame(self.stream, CONTROL, 0, encode_fields(fields))

    def credit(self, amount):
        self.agent.frame(self.stream, CREDIT, 0, struct.pack("<I", amount))

    def wait(self, timeout=HANGS):
        self.agent.pump_until(lambda: self.end is not None, timeout)
        return self.end


class Agent:
    def __init__(self, binary):
        ours, theirs = socket.socketpair()
        command = 'mount -t tmpfs tmpfs /run && exec "$0" --fd "$1"'
        self.process = subprocess.Popen(
            ["unshare", "--pid", "--mount", "--mount-proc", "--uts", "--fork", "--kill-child",
             "sh", "-c", command, binary, str(theirs.fileno())],
            pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
        theirs.close()
        self.socket = ours
        self.buffer = b""
        self.operations = {}
        self.next_stream = 1
        self.hello = None
        self.closed = False
        self.pump_until(lambda: self.hello is not None)

    def frame(self, stream, kind, detail=0, payload=b""):
        self.raw(struct.pack("<IIBBH", len(payload), stream, kind, detail, 0) + payload)

    def raw(self, data):
        self.socket.sendall(data)

    def open(self, operation, **fields):
        stream = self.next_stream
        self.next_stream += 1
        self.operations[stream] = result = Operation(self, stream)
        self.frame(stream, OPEN, operation, encode_fields(fields))
        return result

    def execute(self, *argv, stdin=None, **fields):
        """Runs a command to its end."""
        operation = self.open(EXEC, arg=list(argv), **fields)
        if stdin is not None:
            operation.send(stdin)
        operation.eof()
        operation.wait()
        return operation

    def begin(self, code, language="python", **fields):
        operation = self.open(RUN, language=language, **fields)
        operation.send(code.encode())
        operation.eof()
        return operation

    def run(self, code, language="python", **fields):
        operation = self.begin(code, language, **fields)
        operation.wait()
        return operation

    def pump_until(self, condition, timeout=HANGS):
        deadline = time.monotonic() + timeout
        while not condition():
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.socket], [], [], left)[0]:
                raise TimeoutError("the agent did not answer in time")
            data = self.socket.recv(1 << 20)
            if not data:
                self.closed = True
                if condition():
                    return
                raise ConnectionError("the agent has gone")
            self.buffer += data
            self.take_frames()

    def take_frames(self):
        at = 0
        while len(self.buffer) - at >= 12:
            length, stream, kind, detail, _ = struct.unpack_from("<IIBBH", self.buffer, at)
            if len(self.buffer) - at - 12 < length:
                break
            self.take(stream, kind, detail, self.buffer[at + 12:at + 12 + length])
            at += 12 + length
        self.buffer = self.buffer[at:]

    def take(self, stream, kind, detail, payload):
        if kind == HELLO:
            self.hello = decode_fields(payload)
            return
        operation = self.operations[stream]
        if kind == DATA:
            operation.output[detail] += payload
            operation.pieces.append((detail, payload))
            operation.received += len(payload)
            if operation.auto_credit:
                operation.credit(len(payload))
        elif kind == CREDIT:
            operation.send_credit += struct.unpack("<I", payload)[0]
        elif kind == EVENT:
            operation.events += 1
            operation.event = decode_fields(payload)
            operation.pid = operation.event.get("pid")
        elif kind == EOF:
            operation.ended.add(detail)
        elif kind == END:
            operation.end = decode_fields(payload)
            del self.operations[stream]

    def stop(self, timeout=HANGS):
        """Ends the agent by closing the connection; its exit code."""
        self.socket.close()
        return self.process.wait(timeout)


def default_binary():
    here = os.path.dirname(os.path.abspath(__file__))
    fallback = os.path.join(here, "..", "..", "build", "msb-agent")
    return os.path.abspath(os.environ.get("MSB_AGENT", fallback))
