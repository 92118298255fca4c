"""Commands in a sandbox."""

from .execution import Output


class CommandExecution(Output):
    @property
    def command(self):
        return self._data.get("command", "")

    @property
    def args(self):
        return self._data.get("args") or []

    @property
    def exit_code(self):
        return self._data.get("exit_code", -1)

    @property
    def success(self):
        return bool(self._data.get("success"))


class Command:
    def __init__(self, sandbox):
        self._sandbox = sandbox

    async def run(self, command, args=None, timeout=None, cwd=None):
        """Runs a program without a shell. One that is missing or takes too long is an error."""
        params = {"command": command, "args": list(args or [])}
        if timeout is not None:
            params["timeout"] = int(timeout)
        if cwd is not None:
            params["cwd"] = cwd
        return CommandExecution(await self._sandbox._call("sandbox.command.run", params))
