"""Starts code that prints for ever as a stream, reads nothing of it for a while, and leaves."""
import json
import socket
import sys
import time

port, sandbox = int(sys.argv[1].rpartition(":")[2]), sys.argv[2]
params = {"sandbox": sandbox, "language": "python", "code": "while True: print('x' * 1000)"}
body = json.dumps({"jsonrpc": "2.0", "method": "sandbox.repl.stream", "params": params}).encode()
with socket.create_connection(("127.0.0.1", port), 20) as connection:
    connection.sendall(b"POST /api/v1/rpc HTTP/1.1\r\nHost: localhost\r\n"
                       b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
                       + body)
    assert connection.recv(12) == b"HTTP/1.1 200"
    time.sleep(3)
