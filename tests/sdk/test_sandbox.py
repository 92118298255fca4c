"""The package microsandbox against the server at MSB_SERVER_URL."""

import asyncio
import unittest
import warnings

from microsandbox import NodeSandbox, PythonSandbox, SandboxError

warnings.simplefilter("error", ResourceWarning)


class Sandboxes(unittest.IsolatedAsyncioTestCase):
    async def test_state_output_and_errors(self):
        async with PythonSandbox.create() as sandbox:
            self.assertRegex(sandbox.name, "^sandbox-[0-9a-f]{8}$")
            self.assertTrue(sandbox.is_started)
            first = await sandbox.run("x = 41\nprint('set')\n")
            self.assertEqual([await first.output(), await first.error(), first.has_error()],
                             ["set", "", False])
            second = await sandbox.run("x + 1")
            self.assertEqual([await second.output(), second.status, second.language],
                             ["42", "success", "python"])
            failed = await sandbox.run("1/0")
            self.assertTrue(failed.has_error())
            self.assertIn("ZeroDivisionError", await failed.error())
        self.assertFalse(sandbox.is_started)

    async def test_commands(self):
        async with PythonSandbox.create() as sandbox:
            done = await sandbox.command.run("sh", ["-c", "echo out; echo err >&2; exit 3"])
            self.assertEqual([await done.output(), await done.error(), done.exit_code, done.success],
                             ["out", "err", 3, False])
            self.assertEqual([done.command, done.args[0]], ["sh", "-c"])
            with self.assertRaises(RuntimeError):
                await sandbox.command.run("no-such-program")
            with self.assertRaises(RuntimeError):
                await sandbox.command.run("sleep", ["60"], timeout=1)

    async def test_files_and_metrics(self):
        async with PythonSandbox.create() as sandbox:
            await sandbox.files.write("folder/a.bin", bytes(range(256)))
            self.assertEqual(await sandbox.files.read("folder/a.bin"), bytes(range(256)))
            self.assertEqual([entry["name"] for entry in await sandbox.files.list("folder")], ["a.bin"])
            await sandbox.files.remove("folder", recursive=True)
            with self.assertRaises(SandboxError) as caught:
                await sandbox.files.read("folder/a.bin")
            self.assertEqual(caught.exception.code, "not_found")
            figures = await sandbox.metrics.all()
            self.assertEqual(figures["name"], sandbox.name)
            self.assertTrue(await sandbox.metrics.is_running())
            self.assertGreater(await sandbox.metrics.memory(), 0)
            self.assertIsInstance(await sandbox.metrics.disk(), int)
            await sandbox.metrics.cpu()

    async def test_node(self):
        async with NodeSandbox.create() as sandbox:
            await sandbox.run("const numbers = [1, 2, 3]")
            done = await sandbox.run("console.log(numbers.length); numbers.map((n) => n * 2)")
            self.assertEqual(await done.output(), "3\n[ 2, 4, 6 ]")

    async def test_the_explicit_form(self):
        sandbox = PythonSandbox(namespace="default", name="explicit")
        with self.assertRaises(RuntimeError):
            await sandbox.run("1")
        await sandbox.start(memory=512, cpus=1.0, timeout=180.0)
        self.assertEqual(await (await sandbox.run("1")).output(), "1")
        await sandbox.stop()
        await sandbox.stop()

    async def test_it_stops_after_an_exception(self):
        with self.assertRaises(ValueError):
            async with PythonSandbox.create(name="raising") as sandbox:
                raise ValueError
        with self.assertRaises(SandboxError) as caught:
            sandbox.is_started = True
            await sandbox.run("1")
        self.assertEqual(caught.exception.code, "not_found")

    async def test_events_come_while_the_code_runs(self):
        async with PythonSandbox.create() as sandbox:
            events = []
            async for event, data in sandbox.stream("for i in range(3): print(i)\n7"):
                events.append((event, data.get("text", data.get("status"))))
            printed = "".join(text for event, text in events if event == "output")
            self.assertEqual(printed.split()[:3], ["0", "1", "2"])
            self.assertEqual(events[-1], ("end", "success"))
            async for _ in sandbox.stream("while True: print(1)"):
                break
            self.assertEqual(await (await sandbox.run("5")).output(), "5")

    async def test_a_cancelled_run_is_interrupted(self):
        async with PythonSandbox.create() as sandbox:
            running = asyncio.create_task(sandbox.run("import time; time.sleep(600)"))
            await asyncio.sleep(0.3)
            running.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await running
            self.assertEqual(await (await sandbox.run("6", timeout=30)).output(), "6")

    async def test_many_at_once(self):
        async with PythonSandbox.create() as sandbox:
            done = await asyncio.gather(*[sandbox.command.run("echo", [str(i)]) for i in range(20)])
            self.assertEqual([await one.output() for one in done], [str(i) for i in range(20)])

    async def test_wrong_addresses(self):
        with self.assertRaisesRegex(ConnectionError, "msb server start"):
            async with PythonSandbox.create(server_url="http://127.0.0.1:1"):
                pass
        with self.assertRaises(ValueError):
            PythonSandbox(server_url="localhost:5555")


if __name__ == "__main__":
    unittest.main()
