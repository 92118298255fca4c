"""Connections from the host to a server inside a sandbox, through a published port.

    network.py HOME NAME TEST     runs one of the tests below; prints ok
    network.py serve PORT         the server that runs inside
"""
import hashlib
import os
import socket
import socketserver
import struct
import sys
import time

PATIENCE = 60 * int(os.environ.get("MSB_TEST_PATIENCE", 1))
ZEROS = bytes(1 << 20)


# ---- inside --------------------------------------------------------------------------------------

class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 300


class Handler(socketserver.StreamRequestHandler):
    """The first line names what is to be done with the rest."""

    def handle(self):
        getattr(self, self.rfile.readline().strip().decode())()

    def echo(self):
        self.wfile.write(self.rfile.read())

    def digest(self):
        self.wfile.write(hashlib.sha256(self.rfile.read()).hexdigest().encode())

    def drain(self):
        while self.rfile.read1(1 << 20):
            pass
        self.wfile.write(b".")

    def flood(self):
        while True:
            self.wfile.write(ZEROS)

    def ignore(self):
        time.sleep(15)

    def answer_unread(self):
        """Ends with bytes unread, which breaks the connection."""
        self.wfile.write(b"last words")

    def reset(self):
        self.request.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.request.close()


# ---- outside -------------------------------------------------------------------------------------

def within(seconds, condition):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.05)


def read_all(connection):
    pieces = []
    while piece := connection.recv(1 << 20):
        pieces.append(piece)
    return b"".join(pieces)


def is_broken_off(dial):
    """The connection is reset: not merely ended, and perhaps before it was made."""
    try:
        with dial() as connection:
            connection.recv(1)
            return False
    except ConnectionResetError:
        return True


class Outside:
    def __init__(self, keeper):
        self.keeper = keeper
        self.ports = {port["guest"]: port["host"] for port in keeper.status()["ports"]}

    def dial(self, guest=7000):
        return socket.create_connection(("127.0.0.1", self.ports[guest]), PATIENCE)

    def ask(self, what, data=b""):
        connection = self.dial()
        connection.sendall(what + b"\n" + data)
        return connection

    def echo(self, data):
        with self.ask(b"echo", data) as connection:
            connection.shutdown(socket.SHUT_WR)
            return read_all(connection)

    def memory_kib(self):
        with open("/proc/%d/status" % self.keeper.status()["keeper_pid"]) as lines:
            return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))

    def is_quiet(self):
        return self.keeper.status()["operations"] == 0

    def test_server_is_there(self):
        def answers():
            try:
                return self.echo(b"well") == b"well"
            except ConnectionResetError:
                return False
        within(PATIENCE, answers)

    def test_many_at_once(self):
        connections = [self.ask(b"echo", b"%d" % number) for number in range(200)]
        for connection in connections:
            connection.shutdown(socket.SHUT_WR)
        for number, connection in enumerate(connections):
            assert read_all(connection) == b"%d" % number
            connection.close()

    def test_bytes_arrive_unchanged_and_are_counted(self):
        data = os.urandom(5_000_000)
        before = self.keeper.status()
        with self.ask(b"digest", data) as connection:
            connection.shutdown(socket.SHUT_WR)
            assert read_all(connection) == hashlib.sha256(data).hexdigest().encode()
        assert self.echo(data[:1_000_000]) == data[:1_000_000]
        after = self.keeper.status()
        received = after["network_received"] - before["network_received"]
        assert received == len(b"digest\n") + len(data) + len(b"echo\n") + 1_000_000, received
        assert after["network_sent"] - before["network_sent"] == 64 + 1_000_000

    def test_one_that_never_reads_stops_its_sender_only(self):
        before = self.memory_kib()
        connections = [self.ask(b"flood") for _ in range(4)]
        connections += [self.ask(b"ignore") for _ in range(4)]
        for connection in connections[4:]:
            connection.settimeout(1)
            try:
                for _ in range(1000):
                    connection.sendall(bytes(65536))
                raise AssertionError("nobody stopped the sender")
            except TimeoutError:
                pass
        assert self.echo(b"well") == b"well"
        grown = self.memory_kib() - before
        assert grown < 32 * 1024, "the keeper grew by %d KiB" % grown
        for connection in connections:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()
        within(PATIENCE, self.is_quiet)

    def test_breaks_are_passed_on(self):
        assert is_broken_off(lambda: self.ask(b"reset"))
        assert is_broken_off(lambda: self.dial(7999))
        with self.ask(b"answer_unread", bytes(10000)) as connection:
            said = b""
            try:
                while piece := connection.recv(1 << 20):
                    said += piece
            except ConnectionResetError:
                pass
            assert said == b"last words", said
        assert self.echo(b"well") == b"well"

    def test_a_paused_sandbox_refuses(self):
        from keeper_client import PAUSE, RESUME
        self.keeper.ask(PAUSE)
        assert is_broken_off(self.dial)
        self.keeper.ask(RESUME)
        assert self.echo(b"well") == b"well"


def main():
    if sys.argv[1] == "serve":
        Server(("127.0.0.1", int(sys.argv[2])), Handler).serve_forever()
    from keeper_client import Keeper
    with Keeper(sys.argv[1], sys.argv[2]) as keeper:
        outside = Outside(keeper)
        getattr(outside, "test_" + sys.argv[3])()
        within(20, outside.is_quiet)
    print("ok")


if __name__ == "__main__":
    main()
