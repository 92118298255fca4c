"""What a sandbox costs."""


class Metrics:
    def __init__(self, sandbox):
        self._sandbox = sandbox

    async def all(self):
        answer = await self._sandbox._call("sandbox.metrics.get", {})
        sandboxes = answer.get("sandboxes") or [{}]
        return sandboxes[0]

    async def cpu(self):
        """Percent of one processor, or None."""
        return (await self.all()).get("cpu_usage")

    async def memory(self):
        """MiB, or None."""
        return (await self.all()).get("memory_usage")

    async def disk(self):
        """Bytes, or None."""
        return (await self.all()).get("disk_usage")

    async def is_running(self):
        return bool((await self.all()).get("running"))
