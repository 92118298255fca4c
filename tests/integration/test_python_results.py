"""Rich results, awaiting and lines of notebooks in Python contexts, tried on the real agent."""
import base64
import itertools
import time
import unittest

from agent_harness import RESULTS, STDERR, STDOUT
from test_agent import AgentTest


class PythonTest(AgentTest):
    def call(self, code, **fields):
        return self.agent.run(code, "python", **fields)

    def record(self, code):
        """The only record of a call."""
        (record,) = self.call(code).records()
        return record

    def forms(self, code):
        return self.record(code)["data"]


class Results(PythonTest):
    def test_value_of_the_last_expression_is_the_main_result(self):
        self.assertEqual(self.record("x = 6\nx * 7"), {
            "type": "result", "text": "42", "data": {"text/plain": "42"}, "is_main": True})

    def test_forms_of_the_display_protocol(self):
        code = ("class A:\n  def __repr__(self): return 'plain'\n"
                "  def _repr_html_(self): return '<b>'\n"
                "  def _repr_markdown_(self): return '*m*', {'meta': 1}\n"
                "  def _repr_svg_(self): return '<svg/>'\n"
                "  def _repr_png_(self): return b'\\x89PNG'\n"
                "  def _repr_jpeg_(self): return None\n"
                "  def _repr_latex_(self): return '$x$'\n"
                "  def _repr_json_(self): return {'a': [1, None]}\n"
                "  def _repr_javascript_(self): raise NotImplementedError\nA()")
        self.assertEqual(self.forms(code), {
            "text/plain": "plain", "text/html": "<b>", "text/markdown": "*m*",
            "image/svg+xml": "<svg/>", "image/png": base64.b64encode(b"\x89PNG").decode(),
            "text/latex": "$x$", "application/json": {"a": [1, None]}})

    def test_mimebundle_comes_first(self):
        code = ("class A:\n  def _repr_html_(self): return 'other'\n"
                "  def _repr_mimebundle_(self, include=None, exclude=None):\n"
                "    return {'text/html': 'mine', 'text/plain': 'p', 'a/x+json': [1]}, {}\nA()")
        self.assertEqual(self.forms(code), {
            "text/html": "mine", "text/plain": "p", "a/x+json": [1]})

    def test_classes_and_objects_with_every_attribute_are_text(self):
        self.assertEqual(list(self.forms("class A:\n  def _repr_html_(self): return 'x'\nA")),
                         ["text/plain"])
        self.assertEqual(list(self.forms("from unittest.mock import MagicMock\nMagicMock()")),
                         ["text/plain"])

    def test_failing_repr_is_an_error(self):
        code = "class A:\n  def __repr__(self): raise ValueError('no text')\nA()"
        done = self.call(code)
        self.assertEqual((done.end["exit_code"], done.records()[0]["value"]), (1, "no text"))
        self.assertNotIn("/run/msb", done.records()[0]["traceback"])
        self.assertEqual(self.record("1 + 1")["text"], "2")

    def test_failing_form_leaves_the_others(self):
        code = ("class A:\n  def __repr__(self): return 'text'\n"
                "  def _repr_html_(self): raise ValueError('no html')\nA()")
        result, error = self.call(code).records()
        self.assertEqual(result["data"], {"text/plain": "text"})
        self.assertEqual((error["type"], error["value"]), ("error", "no html"))

    def test_display_is_in_order_and_not_main(self):
        done = self.call("print('before')\ndisplay(1, 'two')\nprint('after')\n3")
        channels = [key for key, _ in itertools.groupby(channel for channel, _ in done.pieces)]
        self.assertEqual(channels, [STDOUT, RESULTS, STDOUT, RESULTS])
        self.assertEqual([(r["text"], r["is_main"]) for r in done.records()],
                         [("1", False), ("'two'", False), ("3", True)])

    def test_ipython_display_can_be_imported(self):
        code = ("from IPython.display import *\nimport IPython\nclear_output(wait=True)\n"
                "display(HTML('<i>'), Markdown('# t'), JSON({'a': 1}))\n"
                "display(SVG('<svg/>'), Latex('$y$'))\n"
                "Image(b'\\x89PNG..')")
        records = self.call(code).records()
        self.assertEqual([next(m for m in r["data"] if m != "text/plain") for r in records],
                         ["text/html", "text/markdown", "application/json", "image/svg+xml",
                          "text/latex", "image/png"])
        self.assertEqual(self.record("IPython.get_ipython() is None")["text"], "True")

    def test_what_was_shown_can_be_shown_anew(self):
        code = ("from IPython.display import update_display\n"
                "handle = display('a', display_id='x')\nhandle.update('b')\n"
                "update_display('c', display_id='x')\ndisplay('d', display_id=True).display_id != 'x'")
        *shown, value = self.call(code).records()
        self.assertEqual([(r["text"], r["update"]) for r in shown],
                         [("'a'", False), ("'b'", True), ("'c'", True), ("'d'", False)])
        self.assertEqual([r["display_id"] for r in shown[:3]], ["x"] * 3)
        self.assertEqual(value["text"], "True")

    def test_only_so_many_values_are_remembered(self):
        for i in range(120):
            self.agent.begin(str(i))
        self.assertEqual(self.record("len(Out), 1 in Out, Out[120], len(In)")["text"],
                         "(100, False, 119, 122)")

    def test_names_of_the_code_come_first(self):
        self.assertEqual(self.call("_ = 1\n5\n_").records()[0]["text"], "1")
        self.assertEqual(self.record("del _\n_")["text"], "1")

    def test_ipython_is_not_loaded_unasked(self):
        self.assertEqual(self.record("import sys; 'IPython' in sys.modules")["text"], "False")

    def test_too_large_a_result_becomes_its_text(self):
        code = ("class A:\n  def __repr__(self): return 'small'\n"
                "  def _repr_png_(self): return bytes(17 << 20)\nA()")
        record = self.record(code)
        self.assertEqual(list(record["data"]), ["text/plain"])
        self.assertRegex(record["text"], r"^small\n\[image/png of 22\.\d MB left out.*16 MB\]$")

    def test_too_large_a_text_is_cut(self):
        for value in ("'x' * (40 << 20)", "display({'text/plain': '\\0' * (12 << 20)}, raw=True)"):
            record = self.record(value)
            self.assertLess(len(record["text"]), 2 << 20)
            self.assertRegex(record["text"], r"\n\[text of [\d.]+ MB cut\]$")

    def test_display_between_calls_does_no_harm(self):
        self.call("import threading, time\ndef late():\n    time.sleep(0.1)\n    display(5)\n"
                  "thread = threading.Thread(target=late)\nthread.start()")
        time.sleep(0.3)
        self.assertEqual(self.record("thread.join()\n6")["text"], "6")

    def test_display_in_a_forked_child_is_output(self):
        done = self.call("import os\npid = os.fork()\nif pid == 0:\n    display(5)\n"
                         "else:\n    _ = os.waitpid(pid, 0)")
        self.assertEqual((done.stdout, done.records()), (b"5\n", []))


class Await(PythonTest):
    def test_await_in_expressions_and_statements(self):
        self.call("import asyncio\nasync def f(x):\n    await asyncio.sleep(0)\n    return x")
        self.assertEqual(self.record("await f(5)")["text"], "5")
        several = "y = await f(6)\n[await f(i) for i in range(2)] + [y]"
        self.assertEqual(self.record(several)["text"], "[0, 1, 6]")

    def test_one_loop_serves_all_calls(self):
        self.call("import asyncio\nevent = asyncio.Event()\n"
                  "async def f():\n    await event.wait()\n"
                  "    return 'went on'\n"
                  "async def start(): return asyncio.create_task(f())\ntask = await start()")
        self.assertEqual(self.record("event.set()\nawait task")["text"], "'went on'")

    def test_loops_of_the_code_itself_still_work(self):
        self.call("import asyncio\nawait asyncio.sleep(0)")
        self.assertEqual(self.record("asyncio.run(asyncio.sleep(0, 3))")["text"], "3")
        self.assertEqual(self.record("await asyncio.sleep(0, 4)")["text"], "4")

    def test_error_has_no_frames_but_the_users(self):
        record = self.record("async def f():\n    raise ValueError('late')\nawait f()")
        self.assertNotIn("asyncio", record["traceback"])
        self.assertNotIn("/run/msb", record["traceback"])
        self.assertIn('"<call-1>", line 2, in f', record["traceback"])

    def test_waiting_can_be_interrupted(self):
        done = self.call("import asyncio\nx = 1\nawait asyncio.sleep(99)", timeout_ms=300)
        self.assertEqual(done.end["verdict"], "timeout")
        self.assertNotIn("state_lost", done.end)
        self.assertEqual(self.record("await asyncio.sleep(0, x)")["text"], "1")


class Notebook(PythonTest):
    def test_commands_are_streamed_in_order(self):
        done = self.call("print('a')\n!echo b; echo c >&2\nprint('d')\n"
                         "if True:\n    !echo \"it's\" \\\n e")
        self.assertEqual(done.stdout, b"a\nb\nd\nit's e\n")
        self.assertEqual(done.stderr, b"c\n")
        self.assertEqual([p for c, p in done.pieces if c in (STDOUT, STDERR)][0], b"a\n")
        self.assertEqual(done.end["exit_code"], 0)

    def test_exit_code_of_a_command(self):
        self.assertEqual(self.record("!exit 3\n_exit_code")["text"], "3")

    def test_all_output_of_a_command_arrives(self):
        done = self.call("!head -c 3000000 /dev/zero")
        self.assertEqual(len(done.stdout), 3_000_000)

    def test_background_processes_do_not_hold_the_call(self):
        self.assertEqual(self.call("!sleep 50 &\nprint(1)").stdout, b"1\n")
        self.assertEqual(self.call("!(sleep 50 & echo 2)\n!(yes >&2 & echo 3)").stdout, b"2\n3\n")

    def test_command_can_be_interrupted(self):
        done = self.call("x = 5\n!sleep 50", timeout_ms=300)
        self.assertEqual(done.end["verdict"], "timeout")
        self.assertEqual(self.record("x")["text"], "5")

    def test_python_stays_python(self):
        code = ("x = 7\ny = (x\n%4)\ntext = '''\n!echo no\n%cd /nowhere\n'''\n!true\n"
                "z = x \\\n%5\ny, z, text")
        self.assertEqual(self.record(code)["text"], r"(3, 2, '\n!echo no\n%cd /nowhere\n')")

    def test_folder_and_environment(self):
        self.assertEqual(self.call("%cd /usr\n!pwd").stdout, b"/usr\n/usr\n")
        self.assertEqual(self.call("%env COLOUR=light blue\n!echo $COLOUR").stdout,
                         b"env: COLOUR=light blue\nlight blue\n")
        self.assertEqual(self.record("%env COLOUR")["text"], "'light blue'")
        self.assertIn("'COLOUR'", self.record("%env")["text"])
        self.assertEqual(self.record("%cd /nowhere")["name"], "FileNotFoundError")

    def test_unknown_magic_is_explained(self):
        done = self.call("print('ran')\n%frobnicate 5")
        record = done.records()[0]
        self.assertEqual((done.stdout, record["name"]), (b"ran\n", "UsageError"))
        self.assertIn("%frobnicate", record["value"])
        self.assertIn('"<call-1>", line 2', record["traceback"])
        self.assertIn("\nUsageError: ", record["traceback"])
        self.assertIn("%%frob", self.record("%%frob\nls -l | wc")["value"])

    def test_syntax_errors_are_those_of_the_code(self):
        record = self.record("!true\nx = = 5")
        self.assertEqual(record["name"], "SyntaxError")
        self.assertIn('"<call-1>", line 2\n    x = = 5', record["traceback"])
        self.assertEqual(record["traceback"].count("SyntaxError"), 1)


if __name__ == "__main__":
    unittest.main()
