"""Lines of notebooks that are no Python: `!command`, `%magic`, `%%magic` of a whole call, `name?`."""
import ast
import builtins
import functools
import os
import re
import shlex
import site
import subprocess
import sys
import time

TARGET = r"((?:[A-Za-z_][\w\s,.\[\]'\"]*=(?!=)\s*)?)"
LINE = re.compile(r"(\s*)" + TARGET + r"(!|%[A-Za-z_]\w*)(.*)", re.DOTALL)
HELP = re.compile(r"(\s*)(\?{0,2})\s*(%{0,2}[A-Za-z_][\w.\[\]]*)\s*(\?{0,2})\s*")
CELL = re.compile(r"(\s*)(%%[A-Za-z_]\w*)[^\S\n]*([^\n]*)\n?(.*)", re.DOTALL)
VALUE = re.compile(r"\$\$(?=[A-Za-z_])|(?<!\$)\{([A-Za-z_][^{}]*)\}|\$([A-Za-z_]\w*)")
CALL = "__msb_magic__"
PIECE = 32768
PIPE_PIECES = 2  # that fill a pipe


class UsageError(Exception):
    """A magic that does not exist or is used wrongly."""

    __module__ = "builtins"  # which tracebacks do not name


class Lines(list):
    """What a command printed, with the forms of IPython's lists of that kind."""

    n = property("\n".join)
    s = property(" ".join)


def translate(code, error):
    """
    The code with the line of this SyntaxError made Python, or None when that is no line of ours.
    Only a line that is at fault is touched: what looks like one in a string stays as it is.
    """
    cell = CELL.fullmatch(code)
    if cell:
        return "%s%s(%r, %r, body=%r)" % (cell[1], CALL, cell[2], cell[3].strip(), cell[4])
    lines = code.split("\n")
    at = (error.lineno or 0) - 1
    if not 0 <= at < len(lines):
        return None
    found = LINE.fullmatch(lines[at])
    if not found:
        return translate_help(lines, at)
    indent, target, name, rest = found.groups()
    end = at
    while rest.endswith("\\") and end + 1 < len(lines):
        end += 1
        rest += "\n" + lines[end]
        lines[end] = ""
    lines[at] = "%s%s%s(%r, %r, %r)" % (indent, target, CALL, name, rest.strip(), bool(target))
    return "\n".join(lines)


def translate_help(lines, at):
    found = HELP.fullmatch(lines[at])
    if not found or not (found[2] or found[4]):
        return None
    lines[at] = "%s%s('?', %r)" % (found[1], CALL, found[3])
    return "\n".join(lines)


class Use:
    """One use of a magic: the rest of its line, and of a cell the lines below it."""

    def __init__(self, rest, body, frame):
        self.rest = rest
        self.body = body
        self.frame = frame

    def expand(self, text):
        """Values of Python for {expression} and $name; what is none of them is left to the shell."""
        def value(found):
            if found[0] == "$$":
                return "$"
            try:
                return str(eval(found[1] or found[2], self.frame.f_globals, self.frame.f_locals))
            except Exception:
                return found[0]
        return VALUE.sub(value, text)

    def code(self):
        """What is to be timed, at the place where its lines are."""
        below = self.frame.f_lineno - (self.body is None)
        return "\n" * below + (self.rest if self.body is None else self.body)


def call(name, rest, assigned=False, body=None):
    use = Use(rest, body, sys._getframe(1))
    if name == "!":
        return run_line(use.expand(rest), assigned)
    if name == "?":
        return show_help(use)
    magics, sign = (MAGICS, "%") if body is None else (CELLS, "%%")
    magic = magics.get(name.lstrip("%"))
    if magic is None:
        known = ", ".join(sign + name for name in sorted(magics))
        raise UsageError("there is no magic %s; there are %s" % (name, known))
    return magic(use)


def forward(pipe, to):
    """Passes on what can be read now; False at the end."""
    data = os.read(pipe.fileno(), PIECE)
    if isinstance(to, bytearray):
        to += data
    elif driver.forked:
        os.write(1 if to == b"o" else 2, data)
    elif data:
        driver.channel.send(to, data)
    return bool(data)


def follow(process, stdout):
    """Passes on all output of the process, also when others hold its pipes longer than it lives."""
    import select
    kinds = {process.stdout.fileno(): (process.stdout, stdout),
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


def run_command(command, shell="bash", stdout=b"o"):
    """Runs lines of shell, their output passed on as it comes; the exit code."""
    path = "/bin/bash" if shell == "bash" and os.path.exists("/bin/bash") else "/bin/sh"
    driver.flush()
    if command.endswith("&"):
        # What goes on in the background needs pipes that stay.
        return subprocess.call([path, "-c", command], stdin=subprocess.DEVNULL)
    with subprocess.Popen([path, "-c", command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, bufsize=0) as process:
        try:
            follow(process, stdout)
            code = process.wait()
        except BaseException:
            process.kill()
            raise
    find_new_packages()
    return code


def run_line(command, assigned):
    output = bytearray() if assigned else b"o"
    driver.main._exit_code = run_command(command, stdout=output)
    return Lines(output.decode("utf-8", "replace").splitlines()) if assigned else None


def find_new_packages():
    """A command may have installed some, also into a folder that was not there at the start."""
    import importlib
    importlib.invalidate_caches()
    if site.ENABLE_USER_SITE:
        folder = site.getusersitepackages()
        if folder not in sys.path and os.path.isdir(folder):
            site.addsitedir(folder)


def show_help(use):
    import inspect
    if use.rest.startswith("%"):
        raise UsageError("there is no help on magics")
    try:
        value = eval(use.rest, use.frame.f_globals, use.frame.f_locals)
    except Exception:
        print("Object `%s` not found." % use.rest)
        return
    try:
        print("Signature: %s%s" % (use.rest, inspect.signature(value)))
    except (TypeError, ValueError):
        pass
    print("Type:      %s" % type(value).__name__)
    print("Docstring: %s" % (inspect.getdoc(value) or "<no docstring>"))


def magic_pip(use):
    code = run_command("%s -m pip %s" % (shlex.quote(sys.executable), use.expand(use.rest)))
    if code != 0:
        raise UsageError("pip ended with exit code %d" % code)


def magic_cd(use):
    folder = " ".join(shlex.split(use.expand(use.rest))) or "~"
    os.chdir(os.path.expanduser(folder))
    print(os.getcwd())


def magic_pwd(use):
    return os.getcwd()


def magic_env(use):
    """`%env`, `%env NAME`, `%env NAME=value`, `%env NAME value`"""
    rest = use.expand(use.rest)
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


def magic_config(use):
    """Formats of figures; other settings of InlineBackend change nothing here."""
    name, _, value = (part.strip() for part in use.rest.partition("="))
    if not name.startswith("InlineBackend."):
        raise UsageError("there is only InlineBackend.figure_format to be set")
    if name.endswith((".figure_format", ".figure_formats")):
        formats = ast.literal_eval(value)
        formats = [formats] if isinstance(formats, str) else formats
        driver.part("display").choose_formats(*formats)


def magic_load_ext(use):
    raise UsageError("there is no extension %s: extensions of IPython cannot be loaded" % use.rest)


def magic_matplotlib(use):
    """Figures are shown inline whatever is asked for."""


def own_names():
    return sorted(name for name in vars(driver.main) if not name.startswith("_"))


def magic_who(use):
    print("\t".join(own_names()) or "There are no variables.")


def magic_whos(use):
    print("%-20s %-15s %s" % ("Variable", "Type", "Value"))
    for name in own_names():
        value = vars(driver.main)[name]
        text = repr(value).replace("\n", " ")
        print("%-20s %-15s %s" % (name, type(value).__name__, text if len(text) < 60 else text[:57] + "..."))


def magic_reset(use):
    for name in own_names():
        del vars(driver.main)[name]


def magic_run(use):
    """Runs a program as __main__; its variables become those of the context."""
    path, *arguments = shlex.split(use.expand(use.rest)) or [""]
    with open(path, "rb") as file:
        code = compile(file.read(), path, "exec", dont_inherit=True)
    names = {"__name__": "__main__", "__file__": path, "__builtins__": builtins}
    before, sys.argv = sys.argv, [path, *arguments]
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    try:
        exec(code, names)
    except SystemExit as end:
        if end.code not in (None, 0):
            raise
    finally:
        sys.argv = before
        del sys.path[0]
        vars(driver.main).update((k, v) for k, v in names.items() if not k.startswith("__"))


def magic_shell(name, use):
    driver.main._exit_code = run_command("%s %s" % (name, use.expand(use.rest)))


def span(seconds):
    for unit, size in (("s", 1), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return "%.3g %s" % (seconds / size, unit)
    return "%.3g ns" % (seconds * 1e9)


def magic_time(use):
    filename = use.frame.f_code.co_filename
    before, began = os.times(), time.perf_counter()
    try:
        if use.body is not None:
            return driver.evaluate(use.code(), filename)
        tree, _ = driver.parse(use.code(), filename)
        kind = "exec"
        if len(tree.body) == 1 and isinstance(tree.body[0], ast.Expr):
            tree, kind = ast.Expression(tree.body[0].value), "eval"
        return driver.compute(compile(tree, filename, kind, ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, True))
    finally:
        wall, after = time.perf_counter() - began, os.times()
        user, system = after.user - before.user, after.system - before.system
        print("CPU times: user %s, sys: %s, total: %s\nWall time: %s"
              % (span(user), span(system), span(user + system), span(wall)))


def magic_timeit(use):
    """`%timeit [-n loops] [-r runs] code`; of a cell the line is what is done once before."""
    import statistics
    import timeit
    options = re.match(r"(?:-n\s*(\d+)\s*|-r\s*(\d+)\s*)*", use.rest)
    line = use.rest[options.end():]
    code, setup = (line, "pass") if use.body is None else (use.body, line or "pass")
    timer = timeit.Timer(code, setup, globals=use.frame.f_globals)
    loops = int(options[1] or 0) or timer.autorange()[0]
    runs = [seconds / loops for seconds in timer.repeat(int(options[2] or 5), loops)]
    print("%s ± %s per loop (mean ± std. dev. of %d runs, %d loops each)"
          % (span(statistics.mean(runs)), span(statistics.pstdev(runs)), len(runs), loops))


def cell_shell(shell, use):
    code = run_command(use.body.rstrip("\n"), shell)
    driver.main._exit_code = code
    if code != 0:
        raise subprocess.CalledProcessError(code, shell)


def cell_writefile(use):
    """`%%writefile [-a] path`"""
    *options, path = shlex.split(use.expand(use.rest)) or [""]
    with open(os.path.expanduser(path), "a" if options == ["-a"] else "w", encoding="utf-8") as file:
        file.write(use.body if use.body.endswith("\n") else use.body + "\n")
    print("Writing %s" % path)


def cell_display(mime, use):
    driver.display({mime: use.body, "text/plain": use.body}, raw=True)


MAGICS = {
    "cd": magic_cd, "config": magic_config, "env": magic_env, "load_ext": magic_load_ext,
    "matplotlib": magic_matplotlib, "pip": magic_pip, "pwd": magic_pwd, "reset": magic_reset,
    "run": magic_run, "time": magic_time, "timeit": magic_timeit, "who": magic_who,
    "whos": magic_whos,
}
for shell_command in ("cat", "cp", "ls", "mkdir", "mv", "rm", "rmdir"):
    MAGICS[shell_command] = functools.partial(magic_shell, shell_command)

CELLS = {"time": magic_time, "timeit": magic_timeit, "writefile": cell_writefile,
         "bash": functools.partial(cell_shell, "bash"), "sh": functools.partial(cell_shell, "sh")}
for name, mime in (("html", "text/html"), ("markdown", "text/markdown"), ("latex", "text/latex"),
                   ("javascript", "application/javascript"), ("svg", "image/svg+xml")):
    CELLS[name] = functools.partial(cell_display, mime)
