"""Tries one property of contexts in running sandboxes: contexts.py HOME PROPERTY NAME…"""
import json
import sys

from agent_harness import CONTEXT_MAKE, RUN, STDOUT
from keeper_client import Keeper


def make(keeper, language="python"):
    ended = keeper.call(CONTEXT_MAKE, language=language)[1]
    assert "verdict" not in ended, ended
    return json.loads(ended["status"])["id"]


def run(keeper, context, code):
    output, ended = keeper.call(RUN, code.encode(), context=context)
    assert ended["exit_code"] == 0, (output, ended)
    return output.get(STDOUT, b"").decode()


def are_no_twins(home, *names):
    code = ("import random, uuid, tempfile, ssl, numpy\n"
            "for value in (random.random(), uuid.uuid4(), tempfile.mktemp(), ssl.RAND_bytes(8),\n"
            "              numpy.random.rand()): print(value)")
    values = []
    for name in names:
        with Keeper(home, name) as keeper:
            keeper.run("0")
            for context in ("python", make(keeper), make(keeper)):
                values += run(keeper, context, code).splitlines()
    assert len(values) == len(names) * 15 and len(set(values)) == len(values), values


def are_warm(home, name):
    code = ("import os, sys\nbefore = 'pandas' in sys.modules\nimport pandas\n"
            "print(before, os.getuid(), os.getcwd(), os.environ['HOME'])")
    with Keeper(home, name) as keeper:
        first = keeper.run(code)[0][STDOUT].decode()
        assert run(keeper, make(keeper), code) == first, first
        assert first.startswith("False ") and " 0 " not in first, first


def of_bash_keep_their_state(home, name):
    with Keeper(home, name) as keeper:
        context = make(keeper, "bash")
        run(keeper, context, "x=1; f() { echo \"$x $PWD $(id -u)\"; }; cd /usr")
        assert keeper.call(RUN, b"exit 3", context=context)[1]["exit_code"] == 3
        said = run(keeper, context, "f")
        assert said.startswith("1 /usr ") and said != "1 /usr 0\n", said


if __name__ == "__main__":
    globals()[sys.argv[2]](sys.argv[1], *sys.argv[3:])
