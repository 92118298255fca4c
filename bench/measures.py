"""How things are measured: samples and their spread, the first output of commands, speeds."""
import contextlib
import os
import selectors
import socket
import subprocess
import tempfile
import time

from steps import Failed, reason_of

CODE = "print(6*7)"
ANSWER = b"42"
PANDAS = "import pandas; print(6*7)"
WAIT_S = 120


def percentile(values, percent):
    return sorted(values)[min(len(values) - 1, int(len(values) * percent / 100))]


def elapsed_ms(call):
    began = time.monotonic()
    call()
    return (time.monotonic() - began) * 1000


class Samples:
    """Figures of things that worked, reasons of those that did not."""

    def __init__(self):
        self.values = []
        self.failures = []

    def take(self, call):
        try:
            self.values.append(call())
        except Exception as error:  # whatever it is, it is one failure among the samples
            self.failures.append(reason_of(error))

    def add(self, other):
        self.values += other.values
        self.failures += other.failures

    def summary(self):
        told = {"tries": len(self.values) + len(self.failures), "worked": len(self.values)}
        if self.failures:
            told["failed"] = self.failures[0]
        for name, percent in (("p50", 50), ("p95", 95), ("p99", 99), ("max", 100)):
            if self.values:
                told[name] = round(percentile(self.values, percent), 3)
        return told


def repeat(call, count, seconds, after=lambda: None):
    """Samples of so many calls, or of as many as begin within so many seconds. What comes after each is not timed."""
    samples, deadline = Samples(), time.monotonic() + seconds
    for i in range(count):
        if i and time.monotonic() > deadline:
            break
        samples.take(call)
        after()
    return samples


# ---- commands -------------------------------------------------------------------------------------


class Command:
    """A command that runs; what it prints on stderr is kept for when it fails."""

    def __init__(self, argv):
        self.errors = tempfile.TemporaryFile()
        self.began = time.monotonic()
        self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.errors)
        self.seen = b""
        self.first_ms = None

    def read(self):
        """Some output; whether there may be more that matters."""
        piece = os.read(self.process.stdout.fileno(), 65536)
        self.seen += piece
        if self.first_ms is None and ANSWER in self.seen:
            self.first_ms = (time.monotonic() - self.began) * 1000
        return piece and self.first_ms is None

    def await_answer(self):
        while self.read():
            pass
        return self.answered_ms()

    def answered_ms(self):
        if self.first_ms is None:
            raise Failed(self.complaint())
        return self.first_ms

    def complaint(self):
        self.errors.seek(0)
        said = self.errors.read().decode(errors="replace").strip().splitlines()
        return said[-1] if said else "no answer, exit code %s" % self.process.poll()

    def __enter__(self):
        return self

    def __exit__(self, error, *_):
        """A command that has answered may end by itself."""
        try:
            if not error:
                self.process.wait(WAIT_S)
        finally:
            self.kill()

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.errors.close()


def first_output_ms(argv):
    """From before the command starts to its first output; then it may end."""
    with Command(argv) as command:
        return command.await_answer()


def output_of(argv):
    """All of it."""
    with tempfile.TemporaryFile() as errors:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors)
        if done.returncode:
            errors.seek(0)
            said = errors.read().decode(errors="replace").strip()
            raise Failed(said or "exit code %d" % done.returncode)
    return done.stdout.decode()


def burst_of_commands(argvs):
    """When each of them, started at once, had its first output: from the start of the first."""
    samples, began = Samples(), time.monotonic()
    with contextlib.ExitStack() as stack:
        commands = []
        for argv in argvs:
            commands.append(stack.enter_context(Command(argv)))
            commands[-1].began = began
        read_all(commands)
        for command in commands:
            samples.take(command.answered_ms)
    return samples


def read_all(commands):
    """Until each has answered or ended, or all are silent for long."""
    with selectors.DefaultSelector() as selector:
        for command in commands:
            selector.register(command.process.stdout, selectors.EVENT_READ, command)
        while selector.get_map():
            ready = selector.select(WAIT_S)
            if not ready:
                return
            for key, _ in ready:
                if not key.data.read():
                    selector.unregister(key.fileobj)


# ---- ports ----------------------------------------------------------------------------------------


def dial(port, what):
    """A connection to tests/integration/network.py, which does what its first line says."""
    connection = socket.create_connection(("127.0.0.1", port), WAIT_S)
    connection.sendall(what + b"\n")
    return connection


def await_echo(port):
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        try:
            with dial(port, b"echo") as connection:
                connection.sendall(ANSWER)
                connection.shutdown(socket.SHUT_WR)
                if connection.recv(16) == ANSWER:
                    return
        except OSError:
            pass
        time.sleep(0.05)
    raise Failed("no server behind the port")


def receive(connection, size):
    while size > 0:
        piece = connection.recv(1 << 20)
        if not piece:
            raise Failed("the connection ended early")
        size -= len(piece)


def send_and_wait(connection, size):
    connection.sendall(bytes(size))
    connection.shutdown(socket.SHUT_WR)
    receive(connection, 1)


def port_speeds(port, size):
    """MB/s of one connection, out of the environment and into it."""
    await_echo(port)
    with dial(port, b"flood") as connection:
        out = elapsed_ms(lambda: receive(connection, size))
    with dial(port, b"drain") as connection:
        into = elapsed_ms(lambda: send_and_wait(connection, size))
    return {"out": round(size / out / 1000, 1), "in": round(size / into / 1000, 1)}
