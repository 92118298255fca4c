"""The cases of tests/conformance, one test each."""
import os
import shutil
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "conformance"))

from conformance import Conformance, add_tests  # noqa: E402

del sys.path[0]
ON_HOST = "MSB_CONFORMANCE" not in os.environ


@add_tests
class Python(Conformance):
    language = "python"
    nothing = "pass"


@add_tests
@unittest.skipIf(ON_HOST and not shutil.which("node"), "node is not installed")
class Node(Conformance):
    language = "node"
    nothing = "undefined"


@add_tests
class Bash(Conformance):
    language = "bash"
    nothing = ":"


del Conformance  # it is no test itself

if __name__ == "__main__":
    unittest.main()
