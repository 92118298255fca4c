"""Lines of notebooks that are no Python: `!command` and `%magic`."""
import os
import re
import shlex
import site
import subprocess
import sys

LINE = re.compile(r"(\s*)(!|%%?[A-Za-z_]\w*)(.*)", re.DOTALL)
CALL = "__msb_magic__"
PIECE = 32768
PIPE_PIECES = 2  # that fill a pipe


class UsageError(Exception):
    """A magic that does not exist or is used wrongly."""

    __module__ = "builtins"  # which tracebacks do not name


def translate(code, error):
    """
    The code with the line of this SyntaxError made Python, or None when that is no line of ours.
    Only a line that is at fault is touched: what looks like one in a string stays as it is.
    """
    lines = code.split("\n")
    at = (error.lineno or 0) - 1
    found = LINE.fullmatch(lines[at]) if 0 <= at < len(lines) else None
    if not found:
        return None
    indent, name, rest = found.groups()
    if name.startswith("%%"):
        raise UsageError("cell magics such as %s are not supported" % name)
    end = at
    while rest.endswith("\\") and end + 1 < len(lines):
        end += 1
        rest += "\n" + lines[end]
        lines[end] = ""
    lines[at] = "%s%s(%r, %r)" % (indent, CALL, name, rest.strip())
    return "\n".join(lines)


def call(name, rest):
    if name == "!":
        driver.main._exit_code = run_command(rest)
        return None
    magic = MAGICS.get(name[1:])
    if magic is None:
        known = ", ".join("%" + name for name in sorted(MAGICS))
        raise UsageError("there is no magic %s; there are %s" % (name, known))
    return magic(rest)


def forward(pipe, kind):
    """Passes on what can be read now; False at the end."""
    data = os.read(pipe.fileno(), PIECE)
    if driver.forked:
        os.write(1 if kind == b"o" else 2, data)
    elif data:
        driver.channel.send(kind, data)
    return bool(data)


def follow(process):
    """Passes on all output of the process, also when others hold its pipes longer than it lives."""
    import select
    kinds = {process.stdout.fileno(): (process.stdout, b"o"),
             process.stderr.fileno(): (process.stderr, b"e")}
    ended = os.pidfd_open(process.pid)
    poll = select.poll()
    for fd in (ended, *kinds):
        poll.register(fd, select.POLLIN)
    try:
        left = None
        while kinds and left != 0:
            ready = [fd for fd, _ in poll.poll(0 if left else None)]
            if left:
                left = left - 1 if ready else 0
            elif ended in ready:
                left = PIPE_PIECES
                poll.unregister(ended)
                continue
            for fd in ready:
                if fd in kinds and not forward(*kinds[fd]):
                    poll.unregister(fd)
                    del kinds[fd]
    finally:
        os.close(ended)


def run_command(command):
    """Runs a line of shell, its output passed on as it comes; its exit code."""
    shell = "/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh"
    driver.flush()
    if command.endswith("&"):
        # What goes on in the background needs pipes that stay.
        return subprocess.call([shell, "-c", command], stdin=subprocess.DEVNULL)
    with subprocess.Popen([shell, "-c", command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, bufsize=0) as process:
        try:
            follow(process)
            code = process.wait()
        except BaseException:
            process.kill()
            raise
    find_new_packages()
    return code


def find_new_packages():
    """A command may have installed some, also into a folder that was not there at the start."""
    import importlib
    importlib.invalidate_caches()
    if site.ENABLE_USER_SITE:
        folder = site.getusersitepackages()
        if folder not in sys.path and os.path.isdir(folder):
            site.addsitedir(folder)


def magic_pip(rest):
    code = run_command("%s -m pip %s" % (shlex.quote(sys.executable), rest))
    if code != 0:
        raise UsageError("pip ended with exit code %d" % code)


def magic_cd(rest):
    folder = " ".join(shlex.split(rest)) or "~"
    os.chdir(os.path.expanduser(folder))
    print(os.getcwd())


def magic_env(rest):
    """`%env`, `%env NAME`, `%env NAME=value`, `%env NAME value`"""
    if not rest:
        return dict(os.environ)
    name, separator, value = rest.partition("=" if "=" in rest.split()[0] else " ")
    if not separator:
        if name not in os.environ:
            raise UsageError("there is no environment variable %s" % name)
        return os.environ[name]
    os.environ[name] = value.strip()
    print("env: %s=%s" % (name, value.strip()))
    return None


def magic_matplotlib(rest):
    """Figures are shown inline whatever is asked for."""


MAGICS = {"cd": magic_cd, "env": magic_env, "matplotlib": magic_matplotlib, "pip": magic_pip}
