"""HTTP/1.1 to the server over asyncio streams, with connections that are used again."""

import asyncio
import json
import os
import ssl
import urllib.parse
import uuid
from contextlib import asynccontextmanager

DEFAULT_URL = "http://127.0.0.1:5555"
LINE_MAX = 1 << 20
IDLE_MAX = 8


class SandboxError(RuntimeError):
    """What the server said. `code` is its text code, `hint` what to do about it."""

    def __init__(self, message, code=None, hint=None, data=None):
        super().__init__(message)
        self.code = code
        self.hint = hint
        self.data = data or {}


class Answer:
    """The head of an answer; its body is read from `stream`."""

    def __init__(self, status, headers, stream):
        self.status = status
        self.headers = headers
        self.is_read = False
        self._stream = stream

    async def pieces(self):
        """The body as it comes."""
        if self.headers.get("transfer-encoding", "").lower() == "chunked":
            while size := int((await self._stream.readline()).split(b";")[0], 16):
                yield await self._stream.readexactly(size)
                await self._stream.readexactly(2)
            await self._stream.readline()
            self.is_read = True
            return
        left = int(self.headers.get("content-length", 0))
        while left:
            piece = await self._stream.read(min(left, 1 << 16))
            if not piece:
                raise ConnectionError("the server closed the connection in the middle of an answer")
            left -= len(piece)
            yield piece
        self.is_read = True

    async def body(self):
        return b"".join([piece async for piece in self.pieces()])


class Connection:
    """A server: its address and key, and connections to it that are idle at the moment."""

    def __init__(self, url=None, key=None):
        self.url = (url or os.environ.get("MSB_SERVER_URL") or DEFAULT_URL).rstrip("/")
        self.key = key if key is not None else os.environ.get("MSB_API_KEY")
        parts = urllib.parse.urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{self.url!r} is no address of a server; it begins with http:// or https://")
        self._secure = parts.scheme == "https"
        self._host = parts.hostname
        self._port = parts.port or (443 if self._secure else 80)
        self._authority = parts.netloc.rpartition("@")[2]
        self._prefix = parts.path
        self._idle = []

    async def _open(self):
        context = ssl.create_default_context() if self._secure else None
        try:
            return await asyncio.open_connection(self._host, self._port, ssl=context, limit=LINE_MAX)
        except OSError as error:
            raise ConnectionError(
                f"no server answers at {self.url} ({error}); \"msb server start\" starts one") from error

    def _take_idle(self):
        while self._idle:
            loop, reader, writer = self._idle.pop()
            if loop is asyncio.get_running_loop() and not reader.at_eof() and not writer.is_closing():
                return reader, writer
            if not loop.is_closed():
                writer.close()
        return None

    def _give_back(self, reader, writer, answer):
        closes = answer.headers.get("connection", "").lower() == "close"
        if closes or not answer.is_read or len(self._idle) >= IDLE_MAX:
            writer.close()
        else:
            self._idle.append((asyncio.get_running_loop(), reader, writer))

    def _head(self, method, path, headers, length):
        lines = [f"{method} {self._prefix}{path} HTTP/1.1", f"Host: {self._authority}",
                 f"Content-Length: {length}"]
        if self.key:
            lines.append(f"Authorization: Bearer {self.key}")
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if any("\r" in line or "\n" in line for line in lines):
            raise ValueError("a header has a line break in it")
        return "\r\n".join(lines + ["", ""]).encode()

    @staticmethod
    async def _read_head(reader):
        line = await reader.readline()
        if not line:
            raise ConnectionResetError("the server closed the connection")
        status = int(line.split()[1])
        headers = {}
        while (line := await reader.readline()) not in (b"\r\n", b""):
            name, _, value = line.decode("latin-1").partition(":")
            headers[name.strip().lower()] = value.strip()
        return Answer(status, headers, reader)

    async def _send(self, message, stream):
        reader, writer = stream
        writer.write(message)
        await writer.drain()
        return await self._read_head(reader)

    @asynccontextmanager
    async def exchange(self, method, path, body=b"", headers=None):
        """Sends a request; the block reads its answer. Leaving early ends it at the server too."""
        message = self._head(method, path, headers or {}, len(body)) + body
        idle = self._take_idle()
        stream = idle or await self._open()
        try:
            try:
                answer = await self._send(message, stream)
            except ConnectionError:
                # An idle connection that the server has closed meanwhile has taken no request.
                if not idle:
                    raise
                stream[1].close()
                stream = await self._open()
                answer = await self._send(message, stream)
            yield answer
        except BaseException:
            stream[1].close()
            raise
        self._give_back(*stream, answer)

    async def _call(self, method, params):
        async with self._post(method, params) as answer:
            return result_of(await answer.body())

    def _post(self, method, params):
        body = json.dumps({"jsonrpc": "2.0", "id": str(uuid.uuid4()), "method": method,
                           "params": params}).encode()
        return self.exchange("POST", "/api/v1/rpc", body, {"Content-Type": "application/json"})

    async def call(self, method, params, timeout=None):
        """One call of JSON-RPC."""
        return await asyncio.wait_for(self._call(method, params), timeout)

    async def events(self, method, params):
        """A call that is answered with server-sent events: pairs of name and data."""
        async with self._post(method, params) as answer:
            if not answer.headers.get("content-type", "").startswith("text/event-stream"):
                result_of(await answer.body())
            rest = b""
            async for piece in answer.pieces():
                *events, rest = (rest + piece).split(b"\n\n")
                for event in events:
                    fields = dict(line.split(b": ", 1) for line in event.split(b"\n"))
                    yield fields[b"event"].decode(), json.loads(fields[b"data"])

    async def close(self):
        for loop, _, writer in self._idle:
            if not loop.is_closed():
                writer.close()
        self._idle.clear()


def result_of(text):
    """The result of an answer of JSON-RPC, or the error it has."""
    try:
        message = json.loads(text)
    except ValueError as error:
        raise SandboxError(f"the server answered what is no JSON: {text[:200]!r}") from error
    failure = message.get("error")
    if failure is None:
        return message["result"]
    data = failure.get("data") or failure
    raise SandboxError(failure["message"], data.get("code"), data.get("hint"), data)
