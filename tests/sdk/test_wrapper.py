"""The package microsandbox_wrapper against the server at MSB_SERVER_URL: the uses its guides show.

MSB_TEST_SHARED is a folder of the host that clients may share.
"""

import asyncio
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import warnings

import microsandbox_wrapper
from microsandbox import SandboxError
from microsandbox_wrapper import (
    CodeExecutionError,
    ConfigurationError,
    MicrosandboxWrapper,
    MicrosandboxWrapperError,
    ResourceLimitError,
    SandboxFlavor,
    SessionNotFoundError,
    SessionStatus,
    SessionTools,
    VolumeMapping,
    WrapperConfig,
)

warnings.simplefilter("error", ResourceWarning)
EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"


class Uses(unittest.IsolatedAsyncioTestCase):
    async def test_1_one_call(self):
        async with MicrosandboxWrapper() as wrapper:
            result = await wrapper.execute_code("print('Hello from Python!')", template="python",
                                                flavor=SandboxFlavor.SMALL)
            self.assertEqual(result.stdout, "Hello from Python!\n")
            self.assertEqual([result.stderr, result.success, result.template, result.session_created],
                             ["", True, "python", True])
            self.assertGreaterEqual(result.execution_time_ms, 0)
            failed = await wrapper.execute_code("1/0", session_id=result.session_id)
            self.assertFalse(failed.success)
            self.assertIn("ZeroDivisionError", failed.stderr)

    async def test_2_state(self):
        async with MicrosandboxWrapper() as wrapper:
            first = await wrapper.execute_code("x = 42")
            second = await wrapper.execute_code("print(x)", session_id=first.session_id)
            self.assertEqual([second.stdout, second.session_created], ["42\n", False])
            done = await wrapper.execute_command("echo", ["a b"], session_id=first.session_id)
            self.assertEqual([done.stdout, done.exit_code, done.success, done.command, done.args],
                             ["a b\n", 0, True, "echo", ["a b"]])
            line = await wrapper.execute_command("echo one | tr o 0; exit 3",
                                                 session_id=first.session_id)
            self.assertEqual([line.stdout, line.exit_code, line.success], ["0ne\n", 3, False])

    async def test_3_volumes(self):
        with tempfile.TemporaryDirectory(dir=os.environ["MSB_TEST_SHARED"]) as folder:
            source, target = pathlib.Path(folder, "in"), pathlib.Path(folder, "out")
            source.mkdir()
            target.mkdir()
            (source / "a.txt").write_text("some text", encoding="utf-8")
            config = WrapperConfig.from_env()
            config.shared_volume_mappings = [f"{source}:/input", f"{target}:/output"]
            self.assertEqual(config.get_parsed_volume_mappings()[0], VolumeMapping(str(source), "/input"))
            async with MicrosandboxWrapper(config) as wrapper:
                result = await wrapper.execute_code(
                    "open('/output/b.txt', 'w').write(open('/input/a.txt').read().upper())")
                self.assertTrue(result.success, result.stderr)
                mappings = await wrapper.get_volume_mappings()
                self.assertIn(VolumeMapping(str(target), "/output"), mappings)
            self.assertEqual((target / "b.txt").read_text(encoding="utf-8"), "SOME TEXT")

    async def test_4_three_at_once(self):
        async with MicrosandboxWrapper() as wrapper:
            results = await asyncio.gather(
                wrapper.execute_code("print('one')", template="python"),
                wrapper.execute_code("print('two')", template="python"),
                wrapper.execute_code("console.log('three')", template="node"))
            self.assertEqual([one.stdout for one in results], ["one\n", "two\n", "three\n"])
            self.assertEqual(len({one.session_id for one in results}), 3)

    async def test_5_statistics(self):
        config = WrapperConfig.from_env()
        config.max_concurrent_sessions = 7
        async with MicrosandboxWrapper(config) as wrapper:
            made = await wrapper.execute_code("1")
            stats = await wrapper.get_resource_stats()
            self.assertGreaterEqual(stats.active_sessions, 1)
            self.assertEqual(stats.max_sessions, 7)
            self.assertGreaterEqual(stats.total_memory_mb, 1024)
            self.assertGreaterEqual(stats.sessions_by_flavor[SandboxFlavor.SMALL], 1)
            session, = await wrapper.get_sessions(made.session_id)
            self.assertEqual([session.session_id, session.template, session.flavor.value],
                             [made.session_id, "python", "small"])
            self.assertEqual(session.status, SessionStatus.READY)
            self.assertTrue(await wrapper.stop_session(made.session_id))
            self.assertFalse(await wrapper.stop_session(made.session_id))
            self.assertEqual(await wrapper.get_sessions(made.session_id), [])

    async def test_6_background_tasks(self):
        async with MicrosandboxWrapper() as wrapper:
            paused = await wrapper.pause_background_tasks()
            self.assertEqual(sorted(paused["tasks_paused"]), ["orphan_cleanup", "session_cleanup"])
            self.assertTrue((await wrapper.execute_code("print(1)")).success)
            resumed = await wrapper.resume_background_tasks()
            self.assertEqual(resumed["status"], "success")
            status = await wrapper.get_background_task_status()
            self.assertEqual([status["overall_status"], status["wrapper_started"]], ["healthy", True])
            self.assertIn("session_manager", status["components"])
            await wrapper.restart_background_tasks()
            self.assertEqual(await wrapper.cleanup_orphan_sandboxes(), 0)

    async def test_7_errors(self):
        config = WrapperConfig.from_env()
        config.max_concurrent_sessions = 1
        config.enable_lru_eviction = False
        caught = []

        async def attempt(call):
            try:
                await call
            except ResourceLimitError as error:
                caught.append(("limit", error))
            except CodeExecutionError as error:
                caught.append(("code", error))
            except SessionNotFoundError as error:
                caught.append(("session", error))
            except MicrosandboxWrapperError as error:
                caught.append(("other", error))

        async with MicrosandboxWrapper(config) as wrapper:
            made = await wrapper.execute_code("1")
            await attempt(wrapper.execute_code("2"))
            await attempt(wrapper.execute_code("import time; time.sleep(60)", timeout=1,
                                               session_id=made.session_id))
            await attempt(wrapper.execute_code("3", template="cobol", session_id="other"))
        await attempt(wrapper.execute_code("4"))
        self.assertEqual([kind for kind, _ in caught][:2], ["limit", "code"])
        limit, code = caught[0][1], caught[1][1]
        self.assertEqual([limit.to_dict()[key] for key in ("error_code", "category", "severity")],
                         ["RESOURCE_LIMIT_ERROR", "resource", "high"])
        self.assertEqual(code.context["error_type"], "timeout")
        for _, error in caught:
            self.assertIn("Suggested actions:\n  1. ", error.get_user_friendly_message())
        self.assertEqual(len(caught), 4)

    async def test_8_ten_calls_in_one_session(self):
        async with MicrosandboxWrapper() as wrapper:
            session_id, created = None, []
            for i in range(10):
                result = await wrapper.execute_code(f"print({i} ** 2)", session_id=session_id)
                self.assertEqual(result.stdout, f"{i * i}\n")
                session_id = result.session_id
                created.append(result.session_created)
            self.assertEqual(created, [True] + 9 * [False])

    async def test_9_two_configurations(self):
        small = WrapperConfig(max_concurrent_sessions=50, session_timeout=300,
                              default_flavor=SandboxFlavor.SMALL)
        large = WrapperConfig(max_concurrent_sessions=5, session_timeout=7200,
                              default_flavor=SandboxFlavor.LARGE)
        for config, memory in ((small, 1024), (large, 4096)):
            self.assertEqual(config.default_flavor.get_memory_mb(), memory)
            async with MicrosandboxWrapper(config) as wrapper:
                self.assertTrue((await wrapper.execute_code("print(1)")).success)
                session, = await wrapper.get_sessions()
                self.assertEqual(session.flavor, config.default_flavor)

    async def test_10_the_health_check_script(self):
        script = EXAMPLES / "health_check.py"
        for url, code in ((os.environ["MSB_SERVER_URL"], 0), ("http://127.0.0.1:1", 1)):
            ended = await asyncio.to_thread(
                subprocess.run, [sys.executable, script], timeout=60, capture_output=True,
                env={**os.environ, "MSB_SERVER_URL": url}, check=False)
            self.assertEqual(ended.returncode, code, ended)


class Tools(unittest.IsolatedAsyncioTestCase):
    async def test_what_tools_of_agents_do(self):
        tools = SessionTools()
        async with MicrosandboxWrapper() as wrapper:
            try:
                first = await tools.execute_python("x = 41", "agent-py")
                second = await tools.execute_python("print(x + 1)", "agent-py")
                self.assertEqual([first["success"], second["output"].strip()], [True, "42"])
                with self.assertRaises(SandboxError):
                    await tools.execute_python("1", "no/such id")
            finally:
                await wrapper.stop_session("agent-py")
                await tools.close()


class Configuration(unittest.TestCase):
    def setUp(self):
        saved = dict(os.environ)
        self.addCleanup(lambda: (os.environ.clear(), os.environ.update(saved)))

    def refused(self, **values):
        os.environ.update(values)
        with self.assertRaises(ConfigurationError) as caught:
            WrapperConfig.from_env()
        return caught.exception

    def test_each_variable(self):
        os.environ.update(MSB_SESSION_TIMEOUT="900", MSB_MAX_SESSIONS="3", MSB_DEFAULT_FLAVOR="Medium",
                          MSB_MAX_TOTAL_MEMORY_MB="4096", MSB_ENABLE_LRU_EVICTION="off",
                          MSB_SHARED_VOLUME_PATH='["/a:/b", "/c:/d"]', MSB_EXECUTION_TIMEOUT="")
        config = WrapperConfig.from_env()
        self.assertEqual(
            [config.session_timeout, config.max_concurrent_sessions, config.default_flavor,
             config.max_total_memory_mb, config.enable_lru_eviction, config.default_execution_timeout],
            [900, 3, SandboxFlavor.MEDIUM, 4096, False, 300])
        self.assertEqual(config.shared_volume_mappings, ["/a:/b", "/c:/d"])

    def test_wrong_values(self):
        for key, value in (("MSB_SERVER_URL", "ftp://x"), ("MSB_SESSION_TIMEOUT", "soon"),
                           ("MSB_MAX_SESSIONS", "0"), ("MSB_DEFAULT_FLAVOR", "huge"),
                           ("MSB_MAX_TOTAL_MEMORY_MB", "512"), ("MSB_ENABLE_LRU_EVICTION", "maybe"),
                           ("MSB_SHARED_VOLUME_PATH", '["/a:/b"'), ("MSB_SHARED_VOLUME_PATH", '{"a": 1}'),
                           ("MSB_SHARED_VOLUME_PATH", "nocolon"), ("MSB_SESSION_TIMEOUT", "30")):
            with self.subTest(key=key, value=value):
                saved = dict(os.environ)
                error = self.refused(**{key: value})
                self.assertEqual(error.context["config_key"], key)
                self.assertTrue(error.recovery_suggestions)
                os.environ.clear()
                os.environ.update(saved)

    def test_a_wrapper_that_is_not_started(self):
        async def use():
            with self.assertRaises(MicrosandboxWrapperError):
                await MicrosandboxWrapper().execute_code("1")
            self.assertEqual((await MicrosandboxWrapper().health_check())["status"], "not_started")
        asyncio.run(use())

    def test_what_is_exported(self):
        for name in microsandbox_wrapper.__all__:
            self.assertTrue(hasattr(microsandbox_wrapper, name))


if __name__ == "__main__":
    unittest.main()
