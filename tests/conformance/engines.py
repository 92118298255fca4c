"""Where cases run: the agent alone on this host, or a sandbox through its keeper."""
import json
import os
import struct

from agent_harness import (CONTROL, CREDIT, DATA, END, EOF, EXEC, RESULTS, RUN, STDERR, STDIN, STDOUT,
                           Agent, decode_fields, default_binary, encode_fields)
from keeper_client import Keeper

KEPT = 1 << 20  # bytes of each stream that are kept; the rest is counted
PIECES_KEPT = 1000
NAMES = {STDOUT: "stdout", STDERR: "stderr"}


class Stream:
    """A bounded collector for the harness, which adds what arrives."""

    def __init__(self):
        self.size = 0
        self.kept = bytearray()

    def __iadd__(self, data):
        self.size += len(data)
        self.kept += data[:KEPT - len(self.kept)]
        return self

    def text(self):
        return self.kept.decode("utf-8", "replace")


class Pieces(list):
    def append(self, piece):
        if len(self) < PIECES_KEPT:
            super().append(piece)


class Outcome:
    """What came of one call."""

    def __init__(self):
        self.output = {STDOUT: Stream(), STDERR: Stream(), RESULTS: bytearray()}
        self.pieces = Pieces()
        self.end = None

    def take(self, channel, data):
        self.output[channel] += data
        self.pieces.append((channel, data))

    def has(self, text):
        return text in self.output[STDOUT].text()

    def text(self, channel):
        return self.output[channel].text()

    def size(self):
        """Also when the agent passed on only a part of it."""
        return self.end.get("output_bytes", self.output[STDOUT].size + self.output[STDERR].size)

    def printed(self):
        return [[NAMES[channel], bytes(data).decode("utf-8", "replace")]
                for channel, data in self.pieces if channel in NAMES]

    def records(self, kind):
        data, found = self.output[RESULTS], []
        while data:
            (length,) = struct.unpack_from("<I", data)
            found.append(json.loads(data[4:4 + length]))
            data = data[4 + length:]
        return [record for record in found if record["type"] == kind]


class AgentEngine:
    """The agent as a process of this host."""

    name = "agent"

    def __init__(self):
        self.agent = Agent(default_binary())

    def close(self):
        self.agent.stop()

    def run(self, code, language, cancel_on=None, seconds=60, **fields):
        outcome = Outcome()
        operation = self.agent.begin(code, language, **fields)
        operation.output, operation.pieces = outcome.output, outcome.pieces
        if cancel_on is not None:
            self.agent.pump_until(lambda: operation.end or outcome.has(cancel_on), seconds)
            operation.control(cancel=1)
        outcome.end = operation.wait(seconds)
        return outcome

    def execute(self, *argv):
        return bytes(self.agent.execute(*argv).stdout).decode("utf-8", "replace")


class MachineEngine:
    """A running sandbox."""

    name = "machine"

    def __init__(self, sandbox):
        self.keeper = Keeper(os.environ["MSB_HOME"], sandbox)

    def close(self):
        self.keeper.socket.close()

    def run(self, code, language, cancel_on=None, seconds=120, **fields):
        outcome, keeper = Outcome(), self.keeper
        keeper.socket.settimeout(seconds)
        keeper.begin(RUN, language=language, **fields)
        keeper.send(DATA, STDIN, code.encode())
        keeper.send(EOF, STDIN)
        while outcome.end is None:
            stream, kind, detail, payload = keeper.frame()
            if stream != keeper.stream:
                continue
            if kind == DATA:
                outcome.take(detail, payload)
                keeper.send(CREDIT, 0, struct.pack("<I", len(payload)))
            elif kind == END:
                outcome.end = decode_fields(payload)
            if cancel_on is not None and outcome.has(cancel_on):
                keeper.send(CONTROL, 0, encode_fields({"cancel": 1}))
                cancel_on = None
        return outcome

    def execute(self, *argv):
        output, _ = self.keeper.call(EXEC, arg=list(argv))
        return bytes(output.get(STDOUT, b"")).decode("utf-8", "replace")


def open_engine():
    """MSB_CONFORMANCE: `agent`, which is the default, or `machine:NAME` of a running sandbox."""
    kind, _, sandbox = os.environ.get("MSB_CONFORMANCE", "agent").partition(":")
    return MachineEngine(sandbox) if kind == "machine" else AgentEngine()
