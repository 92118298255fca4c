"""Runs code for the agent in one long-lived interpreter; driver.h describes the channel."""
import _signal
import ast
import builtins
import fcntl
import gc
import importlib.machinery
import io
import json
import linecache
import os
import sys
import threading
import traceback
import types

PIECE = 32768
HIGH_FD = 200


class Channel:
    """Descriptors 3 and 4, moved out of the way of code that guesses low numbers."""

    def __init__(self):
        self.commands = self._move(3)
        self.messages = self._move(4)
        self.lock = threading.Lock()
        self.main_thread = threading.get_ident()
        self.writing = False  # the main thread, the only one that signals reach
        self.interrupted = False

    @staticmethod
    def _move(fd):
        moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, HIGH_FD)
        os.close(fd)
        return moved

    def _read(self, size):
        parts = []
        while size:
            part = os.read(self.commands, min(size, 1 << 20))
            if not part:
                os._exit(0)
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def receive(self):
        header = self._read(5)
        return chr(header[0]), self._read(int.from_bytes(header[1:], "little"))

    def send(self, kind, payload):
        """A whole message or none: an interrupt waits until it is written."""
        message = memoryview(kind + len(payload).to_bytes(4, "little") + payload)
        with self.lock:
            in_main = threading.get_ident() == self.main_thread
            self.writing = self.writing or in_main
            while message:
                message = message[os.write(self.messages, message):]
            self.writing = self.writing and not in_main
        if in_main and self.interrupted:
            self.interrupted = False
            raise KeyboardInterrupt

    def close(self):
        os.close(self.commands)
        os.close(self.messages)


class Raw(io.RawIOBase):
    """The bytes of sys.stdout or sys.stderr; in forked children a plain descriptor."""

    def __init__(self, kind, fd):
        self.kind = kind
        self.fd = fd

    def writable(self):
        return True

    def fileno(self):
        return self.fd

    def write(self, data):
        data = bytes(data)
        if driver.forked:
            return os.write(self.fd, data)
        for at in range(0, len(data), PIECE):
            driver.channel.send(self.kind, data[at:at + PIECE])
        return len(data)


def open_text(kind, fd, name):
    """Complete lines leave as one piece, the rest at the end of the call or on flush."""
    raw = Raw(kind, fd)
    raw.name = name
    buffered = io.BufferedWriter(raw, PIECE)
    return io.TextIOWrapper(buffered, "utf-8", "backslashreplace", line_buffering=True)


def describe(value):
    """The records that show a value; richer forms than text go next to it."""
    return {"type": "result", "text": repr(value)}


def hide_driver(error):
    """Leaves only the user's own frames in a formatted exception and what led to it."""
    seen = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        frames = [frame for frame in error.stack if frame.filename != __file__]
        error.stack = traceback.StackSummary.from_list(frames)
        error = error.__cause__ or error.__context__


def exit_code(error):
    """What a program that ends with this exception gives to its caller."""
    if not isinstance(error, SystemExit):
        return 1
    if error.code is None:
        return 0
    return error.code & 255 if isinstance(error.code, int) else 1


def describe_error(error):
    if isinstance(error, SystemExit):
        # An end that was asked for. What it says, if anything, is all that a program would print.
        said = "" if error.code is None or isinstance(error.code, int) else str(error.code)
        return {"type": "error", "name": "SystemExit", "value": str(error), "traceback": said}
    formatted = traceback.TracebackException(type(error), error, error.__traceback__)
    hide_driver(formatted)
    try:
        value = str(error)
    except Exception:
        value = "<the exception cannot be shown as text>"
    return {
        "type": "error",
        "name": type(error).__name__,
        "value": value,
        "traceback": "".join(formatted.format()),
    }


class Driver:
    def __init__(self):
        self.channel = Channel()
        self.running = False
        self.forked = False
        self.count = 0
        self.main = None

    def prepare(self):
        self.new_main()
        self.open_streams()
        sys.stdin = open(os.devnull)
        sys.path[0] = ""
        sys.argv = [""]
        os.register_at_fork(after_in_child=self.after_fork)

    def new_main(self):
        self.main = types.ModuleType("__main__")
        self.main.__dict__["__builtins__"] = builtins
        sys.modules["__main__"] = self.main

    def open_streams(self):
        self.stdout = open_text(b"o", 1, "<stdout>")
        self.stderr = open_text(b"e", 2, "<stderr>")
        sys.stdout = sys.__stdout__ = self.stdout
        sys.stderr = sys.__stderr__ = self.stderr

    def after_fork(self):
        """A forked child has no part in the conversation."""
        if not self.forked:
            self.forked = True
            self.channel.close()

    def catch_interrupts(self):
        """Before each call, for code may change it. Without the enums of the module signal."""
        _signal.signal(_signal.SIGINT, self.on_interrupt)

    def on_interrupt(self, number, frame):
        if self.channel.writing:
            self.channel.interrupted = self.running
        elif self.running:
            raise KeyboardInterrupt

    def record(self, record):
        self.channel.send(b"j", json.dumps(record, ensure_ascii=False).encode("utf-8", "replace"))

    def show(self, value):
        if value is not None:
            self.flush()
            self.record(describe(value))

    def evaluate(self, code, filename):
        """All statements, then the value of the last one if it is an expression."""
        names = self.main.__dict__
        if "\n" not in code:
            # Most calls of one line are expressions, which need no tree.
            try:
                expression = compile(code, filename, "eval", dont_inherit=True)
            except SyntaxError:
                pass
            else:
                return self.show(eval(expression, names))
        tree = ast.parse(code, filename)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, filename, "exec", dont_inherit=True), names)
        if last is None:
            return
        expression = ast.Expression(last.value)
        self.show(eval(compile(expression, filename, "eval", dont_inherit=True), names))

    def flush(self):
        for stream in {id(s): s for s in (sys.stdout, self.stdout, sys.stderr, self.stderr)}.values():
            try:
                stream.flush()
            except (ValueError, AttributeError, OSError):
                pass

    def guarded(self, code, filename):
        """Runs the code; the exception that ended it, or None."""
        try:
            try:
                self.running = True
                self.evaluate(code, filename)
            finally:
                self.running = False
        except BaseException as error:
            return error
        return None

    def run(self, code):
        self.done(self.execute(code))

    def done(self, exit_code):
        self.channel.send(b"d", bytes([exit_code]))

    def execute(self, code):
        """Runs one call and reports all but its end; its exit code."""
        self.count += 1
        filename = "<call-%d>" % self.count
        text = code.decode("utf-8", "replace")
        linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
        if self.stdout.closed or self.stderr.closed:
            self.open_streams()
        self.catch_interrupts()
        self.channel.interrupted = False
        error = self.guarded(text, filename)
        if self.forked:
            self.leave_child(error)
        self.flush()
        self.channel.interrupted = False
        if error is None:
            return 0
        self.record(describe_error(error))
        return exit_code(error)

    def leave_child(self, error):
        if error is not None:
            os.write(2, describe_error(error)["traceback"].encode("utf-8", "replace"))
        self.flush()
        os._exit(0 if error is None else exit_code(error))

    def rehearse(self, code):
        """A first call that leaves no trace. Its end is told last: then the process is at rest."""
        result = self.execute(code)
        self.count = 0
        linecache.cache.pop("<call-1>", None)
        self.new_main()
        gc.collect()
        gc.freeze()
        self.done(result)

    def adopt(self, payload):
        """This process may be a copy of another: nothing random of before may go on."""
        entropy, rest = payload[:32], payload[32:]
        cwd, *env = [os.fsdecode(part) for part in rest.split(b"\0")[:-1]]
        for assignment in env:
            name, _, value = assignment.partition("=")
            os.environ[name] = value
        if cwd:
            try:
                os.chdir(cwd)
            except OSError:
                pass
        reseed(entropy)
        self.done(0)

    def serve(self):
        handlers = {"r": self.run, "w": self.rehearse, "a": self.adopt}
        while True:
            kind, payload = self.channel.receive()
            handlers[kind](payload)


class Preloaded:
    """
    Packages that were imported ahead and are in nobody's sight: absent from sys.modules until the
    first import of one of them, which then costs next to nothing. That is also the moment when
    numpy gets random numbers of its own, so that a start need not wait for it.
    """

    NAMES = ("matplotlib.pyplot", "numpy", "pandas")

    def __init__(self):
        self.modules = {}

    def load(self):
        before = set(sys.modules)
        gc.disable()
        for name in self.NAMES:
            try:
                __import__(name)
            except ImportError:
                pass
        gc.enable()
        for name in set(sys.modules) - before:
            if name.partition(".")[0] not in sys.stdlib_module_names:
                self.modules[name] = sys.modules.pop(name)
        sys.meta_path.insert(0, self)

    def find_spec(self, name, path=None, target=None):
        if name not in self.modules:
            return None
        sys.meta_path.remove(self)
        modules, self.modules = self.modules, {}
        self.module = modules.pop(name)
        self.spec = self.module.__spec__
        sys.modules.update(modules)
        return importlib.machinery.ModuleSpec(name, self)

    def create_module(self, spec):
        return self.module

    def exec_module(self, module):
        module.__spec__ = self.spec
        module.__loader__ = self.spec.loader
        reseed_numpy(list(os.urandom(64)))


def reseed_numpy(numbers):
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed(numbers)


def reseed(entropy):
    loaded = sys.modules.get
    if loaded("random"):
        loaded("random").seed(int.from_bytes(entropy, "little"))
    reseed_numpy(list(entropy))
    if loaded("ssl"):
        loaded("ssl").RAND_add(entropy, 32.0)
    if loaded("tempfile"):
        loaded("tempfile")._name_sequence = None


driver = Driver()
driver.catch_interrupts()
if os.environ.pop("MSB_WARM", None):
    os.environ.setdefault("MPLBACKEND", "Agg")
    Preloaded().load()
driver.prepare()
driver.serve()
