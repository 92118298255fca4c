"""Tools for agent frameworks. The framework is imported only when they are made."""

import json
import urllib.parse
from typing import List

from microsandbox._connection import Connection, SandboxError

DEFAULT_SESSION = "default"


class SessionTools:
    """What the tools do, whatever framework calls them."""

    def __init__(self, server_url=None, api_key=None):
        self._connection = Connection(server_url, api_key)

    async def _post(self, session_id, operation, body):
        path = f"/api/v1/sessions/{urllib.parse.quote(session_id, safe='')}/sandbox/{operation}"
        async with self._connection.exchange("POST", path, json.dumps(body).encode(),
                                             {"Content-Type": "application/json"}) as answer:
            result = json.loads(await answer.body())
        if answer.status >= 400:
            error = result.get("error", result)
            raise SandboxError(error.get("message", str(result)), error.get("code"),
                               error.get("hint"), error)
        return result

    async def execute_python(self, code, session_id=DEFAULT_SESSION):
        return await self._post(session_id, "execute", {"code": code})

    async def install_packages(self, packages, session_id=DEFAULT_SESSION):
        return await self._post(session_id, "install", {"packages": list(packages)})

    async def close(self):
        await self._connection.close()


def create_sandbox_tools(server_url=None, api_key=None):
    """Two tools for LangChain agents: execute_python(code) and install_packages(packages).

    They use the session that `configurable.session_id` of the run's configuration names.
    """
    from langchain_core.runnables import RunnableConfig
    from langchain_core.tools import tool

    sessions = SessionTools(server_url, api_key)

    def session_of(config):
        return (config.get("configurable") or {}).get("session_id") or DEFAULT_SESSION

    @tool
    async def execute_python(code: str, config: RunnableConfig) -> dict:
        """Run Python code in a sandbox. Variables, files and installed packages stay for later
        calls. Print what you want to see; figures come back as images."""
        return await sessions.execute_python(code, session_of(config))

    @tool
    async def install_packages(packages: List[str], config: RunnableConfig) -> dict:
        """Install Python packages with pip in the sandbox of execute_python."""
        return await sessions.install_packages(packages, session_of(config))

    return [execute_python, install_packages]
