"""Sandboxes: one class for each language."""

import uuid
import warnings
from contextlib import asynccontextmanager

from ._connection import Connection
from .command import Command
from .execution import Execution
from .files import Files
from .metrics import Metrics

# What the server may take on top of the time for a start before we give up.
START_MARGIN = 30.0


class BaseSandbox:
    language = None
    default_image = None

    def __init__(self, server_url=None, namespace="default", name=None, api_key=None):
        self._connection = Connection(server_url, api_key)
        self.namespace = namespace
        self.name = name or f"sandbox-{uuid.uuid4().hex[:8]}"
        self.is_started = False
        self.command = Command(self)
        self.files = Files(self)
        self.metrics = Metrics(self)

    @property
    def server_url(self):
        return self._connection.url

    @property
    def api_key(self):
        return self._connection.key

    @classmethod
    @asynccontextmanager
    async def create(cls, server_url=None, namespace="default", name=None, api_key=None, **start):
        """Starts a sandbox and stops it at the end of the block, whatever happened in it."""
        sandbox = cls(server_url=server_url, namespace=namespace, name=name, api_key=api_key)
        try:
            await sandbox.start(**start)
            yield sandbox
        finally:
            try:
                await sandbox.stop()
            finally:
                await sandbox._connection.close()

    async def start(self, image=None, memory=512, cpus=1.0, timeout=180.0, **config):
        """`config` has further settings, as docs/api.md lists them for sandbox.start."""
        if self.is_started:
            return
        settings = {"image": image or self.default_image, "memory": int(memory),
                    "cpus": max(1, round(cpus)), **config}
        params = {**self._place(), "config": settings}
        answer = await self._connection.call("sandbox.start", params, timeout + START_MARGIN)
        if "timed out waiting" in answer:
            warnings.warn(f"Sandbox start: {answer}", stacklevel=2)
        self.is_started = True

    async def stop(self):
        if not self.is_started:
            return
        self.is_started = False
        await self._connection.call("sandbox.stop", self._place())

    async def run(self, code, timeout=None):
        """Runs code; variables stay for the next run. timeout: seconds."""
        return Execution(await self._call("sandbox.repl.run", self._code(code, timeout)))

    async def stream(self, code, timeout=None):
        """The same, as events while it runs: ("output" | "result" | "end", data)."""
        self._check_started()
        params = {**self._place(), **self._code(code, timeout)}
        async for event in self._connection.events("sandbox.repl.stream", params):
            yield event

    def _place(self):
        return {"namespace": self.namespace, "sandbox": self.name}

    def _code(self, code, timeout):
        params = {"language": self.language, "code": code}
        if timeout is not None:
            params["timeout"] = int(timeout)
        return params

    def _check_started(self):
        if not self.is_started:
            raise RuntimeError("the sandbox is not started; call start() first")

    async def _call(self, method, params):
        self._check_started()
        return await self._connection.call(method, {**self._place(), **params})


class PythonSandbox(BaseSandbox):
    language = "python"
    default_image = "microsandbox/python"


class NodeSandbox(BaseSandbox):
    language = "nodejs"
    default_image = "microsandbox/node"
