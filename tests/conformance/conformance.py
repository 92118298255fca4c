"""
Tests made of the cases in python.toml, node.toml and bash.toml. README.md describes their format.
All cases of a language run one after the other in one context.
"""
import os
import re
import time
import tomllib
import unittest

from agent_harness import STDERR, STDOUT
from engines import open_engine

FOLDER = os.path.dirname(os.path.abspath(__file__))
COMMANDS = "for file in /proc/[0-9]*/cmdline; do tr '\\0' ' ' <$file; echo; done 2>/dev/null"
CALL_KEYS = {"code", "stdout", "stderr", "pieces", "results", "error", "verdict", "exit_code", "signal",
             "state_lost", "timeout_ms", "pause_ms", "cancel_on", "output_bytes", "gone", "size"}
CASE_KEYS = CALL_KEYS | {"name", "then", "needs"}


def load(language):
    with open(os.path.join(FOLDER, language + ".toml"), "rb") as file:
        cases = tomllib.load(file)["case"]
    for case in cases:
        unknown = set(case) - CASE_KEYS
        unknown |= {key for call in case.get("then", []) for key in set(call) - CALL_KEYS}
        if unknown:
            raise ValueError("%s.toml: %s: unknown %s" % (language, case["name"], ", ".join(unknown)))
    return cases


class Conformance(unittest.TestCase):
    """One class for each language; its tests are made by `add_tests`."""

    maxDiff = 4000

    @classmethod
    def setUpClass(cls):
        cls.engine = open_engine()
        cls.addClassCleanup(cls.engine.close)
        ended = cls.engine.run(cls.nothing, cls.language).end
        if ended["verdict"] == "error":
            raise unittest.SkipTest("the agent has no %s context: %s" % (cls.language, ended["message"]))

    def check_case(self, case):
        if "needs" in case and self.engine.run(case["needs"], self.language).end["exit_code"] != 0:
            self.skipTest("there is no " + case["needs"])
        for call in [case, *case.get("then", [])]:
            self.check_call(call)

    def check_call(self, call):
        time.sleep(call.get("pause_ms", 0) / 1000)
        size = str(call.get("size", {}).get(self.engine.name, ""))
        options = {key: call[key] for key in ("timeout_ms", "cancel_on") if key in call}
        outcome = self.engine.run(call["code"].replace("SIZE", size), self.language, **options)
        self.check_end(call, outcome)
        if "output_bytes" in call:
            self.assertEqual(outcome.size(), int(str(call["output_bytes"]).replace("SIZE", size)))
        else:
            self.check_text(call.get("stdout", ""), outcome.text(STDOUT), "stdout")
            self.check_text(call.get("stderr", ""), outcome.text(STDERR), "stderr")
        if "pieces" in call:
            self.assertEqual(outcome.printed(), call["pieces"])
        self.check_results(call.get("results", []), outcome.records("result"))
        if "gone" in call:
            self.check_gone(call["gone"])

    def check_text(self, expected, text, what):
        """Exactly this text, or a table: what it `has`, what it `lacks`."""
        if isinstance(expected, str):
            self.assertEqual(text, expected, what)
            return
        for part in expected.get("has", []):
            self.assertIn(part, text, what)
        for part in expected.get("lacks", []):
            self.assertNotIn(part, text, what)

    def check_end(self, call, outcome):
        self.check_error(call.get("error"), outcome.records("error"))
        verdict = call.get("verdict", "exited")
        self.assertEqual(outcome.end.get("verdict"), verdict, outcome.end)
        self.assertEqual(outcome.end.get("state_lost", 0), int(call.get("state_lost", False)), "state_lost")
        if verdict == "exited" or "exit_code" in call:
            self.assertEqual(outcome.end["exit_code"], call.get("exit_code", 1 if "error" in call else 0))
        if "signal" in call:
            self.assertEqual(outcome.end["signal"], call["signal"])

    def check_error(self, expected, errors):
        if expected is None:
            self.assertEqual(errors, [])
            return
        self.assertEqual(len(errors), 1, errors)
        for key in ("name", "value"):
            if key in expected:
                self.check_text(expected[key], errors[0][key], key)
        self.check_text(expected.get("traceback", {}), errors[0]["traceback"], "traceback")

    def check_results(self, expected, results):
        """Forms by MIME type; a form `*` is there and may be anything."""
        found = [{"main": True, **record["data"]} if record["is_main"] else record["data"]
                 for record in results]
        self.assertEqual([sorted(forms) for forms in found], [sorted(forms) for forms in expected])
        for forms, wanted in zip(found, expected):
            self.assertEqual({key: "*" if wanted[key] == "*" else form for key, form in forms.items()},
                             wanted)
        for record in results:
            self.assertEqual(record["text"], record["data"]["text/plain"])

    def check_gone(self, command):
        """No process has this in its command line, after a moment at most."""
        deadline = time.monotonic() + 10
        while command in self.engine.execute("sh", "-c", COMMANDS):
            self.assertLess(time.monotonic(), deadline, "still there: " + command)
            time.sleep(0.1)


def add_tests(tests):
    """Adds a method for each case of the language of these tests."""
    for number, case in enumerate(load(tests.language), 1):
        name = "test_%02d_%s" % (number, re.sub(r"\W+", "_", case["name"]))
        setattr(tests, name, lambda self, case=case: self.check_case(case))
    return tests
