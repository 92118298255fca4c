"""Properties of the agent's tunnels, tried on the real binary: this test plays the program inside,
which shares the agent's network."""
import os
import socket
import struct

from agent_harness import ACCEPT, CONNECT, DATA, STDIN, STDOUT, WINDOW
from test_agent import AgentTest

PATIENCE = 20


def read_all(connection):
    pieces = []
    while piece := connection.recv(1 << 20):
        pieces.append(piece)
    return b"".join(pieces)


class TunnelTest(AgentTest):
    def listen(self, family=socket.AF_INET):
        """A server inside: its socket and port."""
        server = socket.socket(family)
        self.addCleanup(server.close)
        server.settimeout(PATIENCE)
        server.bind(("127.0.0.1" if family == socket.AF_INET else "::1", 0))
        server.listen(300)
        return server, server.getsockname()[1]

    def free_port(self):
        server, port = self.listen()
        server.close()
        return port

    def keep(self, connection):
        self.addCleanup(connection.close)
        connection.settimeout(PATIENCE)
        return connection

    def until(self, condition):
        self.agent.pump_until(condition)

    def connect(self, family=socket.AF_INET):
        """A tunnel to a server inside, and the server's end of it."""
        server, port = self.listen(family)
        tunnel = self.agent.open(CONNECT, port=port)
        self.until(lambda: tunnel.events)
        return tunnel, self.keep(server.accept()[0])

    def arrive(self, port, address="127.0.0.1"):
        return self.keep(socket.create_connection((address, port), PATIENCE))

    def assert_done(self, tunnel):
        self.assertNotIn("verdict", tunnel.wait())

    def assert_fails(self, end, code, part):
        self.assertEqual((end.get("verdict"), end.get("error_code")), ("error", code), end)
        self.assertIn(part, end["message"])

    def assert_alive(self):
        self.assertEqual(self.sh("echo well").stdout, b"well\n")


class Connect(TunnelTest):
    def test_bytes_go_both_ways_and_the_end_is_told(self):
        tunnel, program = self.connect()
        tunnel.send(b"question")
        self.assertEqual(program.recv(100), b"question")
        program.sendall(b"answer")
        self.until(lambda: tunnel.stdout == b"answer")
        tunnel.eof()
        self.assertEqual(program.recv(100), b"")
        program.close()
        self.assert_done(tunnel)
        self.assertEqual(tunnel.ended, {STDOUT})

    def test_a_program_that_has_said_everything_still_listens(self):
        tunnel, program = self.connect()
        program.shutdown(socket.SHUT_WR)
        self.until(lambda: tunnel.ended == {STDOUT})
        tunnel.send(b"more")
        self.assertEqual(program.recv(100), b"more")
        self.assertIsNone(tunnel.end)
        tunnel.eof()
        self.assert_done(tunnel)

    def test_input_that_comes_before_the_connection_is_kept(self):
        server, port = self.listen()
        tunnel = self.agent.open(CONNECT, port=port)
        tunnel.send(b"early")
        tunnel.eof()
        program = server.accept()[0]
        self.assertEqual(read_all(program), b"early")
        program.close()
        self.assert_done(tunnel)

    def test_a_server_on_ipv6_is_found(self):
        tunnel, program = self.connect(socket.AF_INET6)
        tunnel.send(b"six")
        self.assertEqual(program.recv(100), b"six")

    def test_a_port_without_a_server_is_named(self):
        port = self.free_port()
        end = self.agent.open(CONNECT, port=port).wait()
        self.assert_fails(end, "unavailable", "nothing listens on port %d inside" % port)

    def test_ports_out_of_range_are_refused(self):
        for fields in {}, {"port": 0}, {"port": 65536}, {"port": 1 << 40}:
            self.assertEqual(self.agent.open(CONNECT, **fields).wait()["error_code"], "invalid")

    def test_a_program_that_never_reads_stops_the_sender(self):
        tunnel, program = self.connect()
        sent = 0
        while tunnel.send_credit > 0 and sent < 64 << 20:
            sent += tunnel.send_credit
            self.agent.frame(tunnel.stream, DATA, STDIN, bytes(tunnel.send_credit))
            tunnel.send_credit = 0
            self.assert_alive()
        self.assertEqual(tunnel.send_credit, 0)
        tunnel.eof()
        received = 0
        while received < sent:
            received += len(program.recv(1 << 20))
        self.assertEqual(program.recv(1), b"")

    def test_a_client_that_gives_no_credit_stops_the_program(self):
        tunnel, program = self.connect()
        tunnel.auto_credit = False
        program.setblocking(False)
        data, sent = bytes(65536), 0
        try:
            while sent < 64 << 20:
                sent += program.send(data)
        except BlockingIOError:
            pass
        self.until(lambda: tunnel.received == WINDOW)
        self.assert_alive()
        self.assertEqual(tunnel.received, WINDOW)
        self.assertGreater(sent, WINDOW)
        tunnel.auto_credit = True
        tunnel.credit(WINDOW)
        program.close()
        self.until(lambda: tunnel.received == sent and tunnel.ended)

    def test_much_comes_through_unchanged(self):
        tunnel, program = self.connect()
        program.setblocking(True)
        data = os.urandom(200_000)
        for _ in range(20):
            program.sendall(data)
            self.until(lambda: len(tunnel.stdout) == len(data))
            self.assertEqual(bytes(tunnel.stdout), data)
            tunnel.stdout.clear()

    def test_a_reset_ends_the_tunnel(self):
        tunnel, program = self.connect()
        program.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        program.close()
        self.assert_fails(tunnel.wait(), "unavailable", "broke")

    def test_what_was_said_before_a_break_arrives(self):
        tunnel, program = self.connect()
        tunnel.auto_credit = False
        tunnel.send(b"never read")
        program.sendall(bytes(WINDOW) + b"last words")
        self.until(lambda: tunnel.received == WINDOW)
        program.close()
        tunnel.send(b"to nobody")
        self.assert_alive()
        tunnel.credit(WINDOW)
        self.assert_fails(tunnel.wait(), "unavailable", "broke")
        self.assertTrue(tunnel.stdout.endswith(b"last words"))

    def test_cancel_closes_the_connection(self):
        tunnel, program = self.connect()
        tunnel.control(cancel=1)
        self.assertEqual(tunnel.wait()["verdict"], "cancelled")
        self.assertEqual(program.recv(1), b"")

    def test_many_connections_at_once(self):
        server, port = self.listen()
        tunnels = [self.agent.open(CONNECT, port=port) for _ in range(200)]
        for number, tunnel in enumerate(tunnels):
            tunnel.send(b"%03d" % number)
            tunnel.eof()
        for _ in tunnels:
            program = server.accept()[0]
            program.settimeout(PATIENCE)
            program.sendall(read_all(program))
            program.close()
        for number, tunnel in enumerate(tunnels):
            self.assert_done(tunnel)
            self.assertEqual(tunnel.stdout, b"%03d" % number)


class Accept(TunnelTest):
    def park(self, port, count=1):
        parked = [self.agent.open(ACCEPT, port=port) for _ in range(count)]
        self.assert_alive()
        return parked

    def test_a_connection_takes_the_stream_that_waits(self):
        port = self.free_port()
        [tunnel] = self.park(port)
        self.assertEqual((tunnel.events, tunnel.end), (0, None))
        program = self.arrive(port)
        self.until(lambda: tunnel.events == 1)
        program.sendall(b"out")
        self.until(lambda: tunnel.stdout == b"out")
        tunnel.send(b"in")
        self.assertEqual(program.recv(100), b"in")
        tunnel.eof()
        program.close()
        self.assert_done(tunnel)

    def test_streams_are_taken_in_order_and_connections_wait_for_more(self):
        port = self.free_port()
        first, second = self.park(port, 2)
        programs = [self.arrive(port) for _ in range(3)]
        for number, program in enumerate(programs):
            program.sendall(b"%d" % number)
        self.until(lambda: first.stdout and second.stdout)
        [third] = self.park(port)
        self.until(lambda: third.stdout)
        self.assertEqual([first.stdout, second.stdout, third.stdout], [b"0", b"1", b"2"])

    def test_a_stream_that_is_cancelled_takes_no_connection(self):
        port = self.free_port()
        first, second = self.park(port, 2)
        first.control(cancel=1)
        self.assertEqual(first.wait()["verdict"], "cancelled")
        self.arrive(port).sendall(b"x")
        self.until(lambda: second.stdout == b"x")

    def test_the_port_stays_open_without_waiting_streams(self):
        port = self.free_port()
        [first] = self.park(port)
        first.control(cancel=1)
        first.wait()
        self.arrive(port).sendall(b"patient")
        [second] = self.park(port)
        self.until(lambda: second.stdout == b"patient")

    def test_only_loopback_is_listened_on(self):
        port = self.free_port()
        self.park(port)
        with open("/proc/net/tcp") as table:
            rows = [line.split()[1:4] for line in table.readlines()[1:]]
        local = [row[0] for row in rows if row[2] == "0A" and row[0].endswith(":%04X" % port)]
        self.assertEqual(local, ["0100007F:%04X" % port])

    def test_a_port_that_is_taken_is_named(self):
        _, port = self.listen()
        end = self.agent.open(ACCEPT, port=port).wait()
        self.assert_fails(end, "busy", "cannot listen on port %d inside" % port)

    def test_each_address_of_loopback_is_a_place_of_its_own(self):
        port = self.free_port()
        [plain] = self.park(port)
        second, third = (self.agent.open(ACCEPT, port=port, address=0x7F000200 + n) for n in (2, 3))
        self.assert_alive()
        self.arrive(port, "127.0.2.3").sendall(b"third")
        self.arrive(port, "127.0.2.2").sendall(b"second")
        self.arrive(port).sendall(b"plain")
        self.until(lambda: plain.stdout and second.stdout and third.stdout)
        self.assertEqual([plain.stdout, second.stdout, third.stdout], [b"plain", b"second", b"third"])

    def test_no_other_address_is_listened_on(self):
        for address in (0, 0x7E000001, 0x7F000001 << 8, 1 << 40):
            end = self.agent.open(ACCEPT, port=self.free_port(), address=address).wait()
            self.assert_fails(end, "invalid", "no address of the sandbox's own")
