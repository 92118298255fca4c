"""Files in a sandbox."""

import base64


class Files:
    def __init__(self, sandbox):
        self._sandbox = sandbox

    async def read(self, path):
        """The contents as bytes."""
        answer = await self._sandbox._call("sandbox.file.read", {"path": path, "encoding": "base64"})
        return base64.b64decode(answer["content"])

    async def write(self, path, content):
        """Text or bytes; folders on the way are made."""
        data = content.encode() if isinstance(content, str) else bytes(content)
        await self._sandbox._call("sandbox.file.write", {
            "path": path, "content": base64.b64encode(data).decode(), "encoding": "base64"})

    async def list(self, path=".", depth=1):
        answer = await self._sandbox._call("sandbox.file.list", {"path": path, "depth": depth})
        return answer["entries"]

    async def remove(self, path, recursive=False):
        await self._sandbox._call("sandbox.file.remove", {"path": path, "recursive": recursive})
