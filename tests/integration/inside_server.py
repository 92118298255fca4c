"""A server for the inside of a sandbox that answers well, badly or not at all, by path."""

import hashlib
import json
import socketserver

RAW = {
    "nothing": b"",
    "nonsense": b"this is no HTTP\r\n\r\n",
    "endless-head": b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 500000,
    "endless-line": b"HTTP/1.1 200 OK\r\nA: " + b"b" * 5000000,
    "two-lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 5\r\n\r\nhello",
    "length-and-chunks": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n"
                         b"\r\n0\r\n\r\n",
    "control": b"HTTP/1.1 200 OK\r\nA: b\x01c\r\nContent-Length: 0\r\n\r\n",
    "bad-name": b"HTTP/1.1 200 OK\r\nA b: c\r\nContent-Length: 0\r\n\r\n",
    "unasked-101": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nx",
    "status-999": b"HTTP/1.1 999 What\r\nContent-Length: 0\r\n\r\n",
    "many-continues": b"HTTP/1.1 100 Continue\r\n\r\n" * 1000,
    "half-head": b"HTTP/1.1 200 OK\r\nContent-",
    "half-body": b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf",
    "half-chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n64\r\nhalf",
    "bad-chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\nhalf",
    "too-long": b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfourHTTP/1.1 200 OK\r\n\r\nmore",
    "to-the-end": b"HTTP/1.1 200 OK\r\nContent-Type: text/x\r\n\r\nuntil the end",
    "old": b"HTTP/1.0 200 OK\r\n\r\nold",
    "continue": b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
                b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\nok",
    "trailer": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: A\r\n\r\n"
               b"3\r\nabc\r\n0\r\nA: b\r\n\r\n",
    "none": b"HTTP/1.1 204 No Content\r\nX-Own: yes\r\n\r\n",
    "unchanged": b"HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\nContent-Length: 7\r\n\r\n",
    "redirect": b"HTTP/1.1 302 Found\r\nLocation: /login?x=1\r\nContent-Length: 0\r\n\r\n",
    "hops": b"HTTP/1.1 200 OK\r\nConnection: close, X-Hop\r\nX-Hop: a\r\nKeep-Alive: b\r\nX-Stay: c\r\n"
            b"Set-Cookie: d=e\r\nDate: f\r\nContent-Length: 0\r\n\r\n",
}


class Handler(socketserver.StreamRequestHandler):
    def read_head(self):
        line = self.rfile.readline().decode("latin-1").strip()
        headers = []
        while (header := self.rfile.readline().decode("latin-1").strip()):
            name, _, value = header.partition(":")
            headers.append((name.lower(), value.strip()))
        return line, headers

    def read_body(self, headers):
        if headers.get("transfer-encoding") == "chunked":
            body = b""
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return body
        return self.rfile.read(int(headers.get("content-length", 0)))

    def answer(self, body, kind="application/json"):
        head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
        self.wfile.write(head.encode() + body)

    def echo(self, line, headers):
        body = self.read_body(dict(headers))
        self.answer(json.dumps({"line": line, "headers": headers, "size": len(body),
                                "digest": hashlib.sha256(body).hexdigest()}).encode())

    def upgrade(self):
        self.wfile.write(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n"
                         b"Upgrade: shout\r\nX-Own: yes\r\n\r\nready\n")
        while line := self.rfile.readline():
            if line == b"bye\n":
                return
            self.wfile.write(line.upper())

    def handle(self):
        line, headers = self.read_head()
        path = line.split(" ")[1]
        if path.startswith("/raw/"):
            try:
                self.wfile.write(RAW[path[5:]])
            except ConnectionError:
                pass
        elif path.startswith("/upgrade"):
            self.upgrade()
        elif path == "/big":
            self.answer(bytes(range(256)) * (1 << 16), "application/octet-stream")
        elif path == "/endless":
            self.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
            try:
                while True:
                    self.wfile.write(b"x" * 65536)
            except ConnectionError:
                pass
        elif path == "/silent":
            self.rfile.read()
        elif path == "/deaf":
            self.server.stop.wait(600)
        else:
            self.echo(line, headers)


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


if __name__ == "__main__":
    import threading
    with Server(("127.0.0.1", 8000), Handler) as server:
        server.stop = threading.Event()
        server.serve_forever()
