"""Sessions of a server, as one object."""

import asyncio
import time
import uuid
from datetime import datetime, timezone

from microsandbox._connection import Connection, SandboxError

from . import exceptions, models
from .config import WrapperConfig
from .logging_config import get_logger
from .models import CommandResult, ExecutionResult, SandboxFlavor

# What an answer may take beyond the time that its call may.
MARGIN = 30.0


def _now():
    return datetime.now(timezone.utc).isoformat()


class MicrosandboxWrapper:
    """Runs code and commands; sessions are made, used again and cleaned up by the server.

        async with MicrosandboxWrapper() as wrapper:
            result = await wrapper.execute_code("print('hello')", template="python")
    """

    def __init__(self, config=None):
        self._config = config or WrapperConfig.from_env()
        self._config.validate()
        self._connection = None
        self._sessions = set()
        self._group = f"wrapper-{uuid.uuid4().hex[:16]}"
        self._log = get_logger("wrapper")

    async def __aenter__(self):
        await self.start()
        return self

    async def __aexit__(self, *_):
        await self.stop()

    def get_config(self):
        return self._config

    def is_started(self):
        return self._connection is not None

    async def start(self):
        if self._connection:
            return
        connection = Connection(self._config.server_url, self._config.api_key)
        try:
            async with connection.exchange("GET", "/api/v1/health") as answer:
                await answer.body()
        except OSError as error:
            raise exceptions.ConnectionError(
                str(error), {"server_url": connection.url},
                ["Start the server: msb server start --detach",
                 "Check MSB_SERVER_URL"], error) from error
        self._connection = connection
        self._log.info("connected to %s", connection.url)

    async def stop(self, timeout_seconds=30.0):
        """Ends the sessions that were made here."""
        if self._connection:
            await self.graceful_shutdown(timeout_seconds)

    async def execute_code(self, code, template="python", session_id=None,
                           flavor=None, timeout=None):
        seconds = self._seconds(timeout)
        answer = await self._call("session.run_code", seconds, code=code,
                                  **self._session(session_id, template, flavor, seconds))
        self._sessions.add(answer["session_id"])
        return ExecutionResult(
            session_id=answer["session_id"], stdout=answer["stdout"], stderr=answer["stderr"],
            success=answer["success"], execution_time_ms=answer["execution_time_ms"],
            session_created=answer["session_created"], template=answer["template"] or template,
            results=answer.get("results") or [])

    async def execute_command(self, command, args=None, template="python", session_id=None,
                              flavor=None, timeout=None):
        """Without args the command is a line for the shell."""
        seconds = self._seconds(timeout)
        answer = await self._call("session.run_command", seconds, command=command,
                                  args=list(args or []),
                                  **self._session(session_id, template, flavor, seconds))
        self._sessions.add(answer["session_id"])
        return CommandResult(
            session_id=answer["session_id"], stdout=answer["stdout"], stderr=answer["stderr"],
            exit_code=answer["exit_code"], success=answer["success"],
            execution_time_ms=answer["execution_time_ms"],
            session_created=answer["session_created"], command=command, args=list(args or []))

    async def get_sessions(self, session_id=None):
        answer = await self._call("session.list")
        return [models.session_info(record) for record in answer["sessions"]
                if session_id in (None, record["session_id"])]

    async def stop_session(self, session_id):
        """False when there is no such session."""
        self._sessions.discard(session_id)
        try:
            await self._call("session.stop", session_id=session_id)
        except exceptions.SessionNotFoundError:
            return False
        return True

    async def get_volume_mappings(self):
        answer = await self._call("session.volumes")
        shared = [models.VolumeMapping(one["host_path"], one["container_path"])
                  for one in answer["volumes"]]
        return shared + self._config.get_parsed_volume_mappings()

    async def get_resource_stats(self):
        return models.resource_stats(await self._call("session.statistics"),
                                     self._config.max_concurrent_sessions)

    async def cleanup_orphan_sandboxes(self):
        answer = await self._call("session.orphans.clean")
        return answer["cleaned"]

    async def pause_background_tasks(self):
        return await self._call("session.tasks.pause")

    async def resume_background_tasks(self):
        return await self._call("session.tasks.resume")

    async def restart_background_tasks(self):
        return await self._call("session.tasks.restart")

    async def get_background_task_status(self):
        if not self._connection:
            return {"wrapper_started": False, "timestamp": _now(), "components": {},
                    "overall_status": "not_started"}
        return {"wrapper_started": True, **await self._call("session.tasks.status")}

    async def health_check(self):
        if not self._connection:
            return {"status": "not_started", "components": {}, "timestamp": _now()}
        try:
            return await self._call("session.tasks.health")
        except exceptions.MicrosandboxWrapperError as error:
            return {"status": "error", "components": {}, "error": str(error), "timestamp": _now()}

    async def graceful_shutdown(self, timeout_seconds=30.0):
        """Ends the sessions that were made here, within so many seconds, and disconnects."""
        began, start_time, errors = time.monotonic(), _now(), []
        stops = [asyncio.ensure_future(self.stop_session(one)) for one in list(self._sessions)]
        if stops:
            done, late = await asyncio.wait(stops, timeout=timeout_seconds)
            for stop in late:
                stop.cancel()
            errors = [str(stop.exception()) for stop in done if stop.exception()]
            errors += [f"{len(late)} sessions did not end in time"] if late else []
        if self._connection:
            await self._connection.close()
        self._connection = None
        return {
            "start_time": start_time, "timeout_seconds": timeout_seconds,
            "components_stopped": ["session_manager", "resource_manager"],
            "components_expected": 2, "errors": errors, "end_time": _now(),
            "duration_seconds": time.monotonic() - began,
            "status": "partial_success" if errors else "success",
        }

    def _seconds(self, timeout):
        return int(timeout or self._config.default_execution_timeout)

    def _session(self, session_id, template, flavor, seconds):
        config = self._config
        params = {
            "template": template,
            "flavor": SandboxFlavor(flavor or config.default_flavor).value,
            "timeout": seconds,
            "wait": True,
            "session_timeout": int(config.session_timeout),
            "group": self._group,
            "max_sessions": config.max_concurrent_sessions,
            "evict": config.enable_lru_eviction,
        }
        if session_id is not None:
            params["session_id"] = session_id
        if config.max_total_memory_mb is not None:
            params["max_total_memory_mb"] = config.max_total_memory_mb
        if config.shared_volume_mappings:
            params["volumes"] = list(config.shared_volume_mappings)
        return params

    async def _call(self, method, seconds=0, **params):
        if not self._connection:
            raise exceptions.MicrosandboxWrapperError(
                "the wrapper is not started", recovery_suggestions=[
                    "Use it in \"async with MicrosandboxWrapper() as wrapper\"",
                    "Or call await wrapper.start() first"])
        limit = seconds + self._config.sandbox_start_timeout + MARGIN
        try:
            return await self._connection.call(method, params, limit)
        except SandboxError as error:
            raise exceptions.from_server(error) from error
        except (OSError, asyncio.TimeoutError) as error:
            raise exceptions.ConnectionError(
                str(error) or "the server did not answer in time",
                {"server_url": self._connection.url}, ["Check that the server runs: msb server status"],
                error) from error
