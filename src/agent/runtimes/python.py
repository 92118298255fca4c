"""Runs code for the agent in one long-lived interpreter; driver.h describes the channel."""
import _signal
import ast
import builtins
import fcntl
import gc
import io
import json
import linecache
import os
import sys
import threading
import tokenize  # newer ones load it to show an error, too late when code has all descriptors
import traceback
import types

PIECE = 32768
HIGH_FD = 200
FOLDER = os.path.dirname(os.path.abspath(__file__))
AWAIT = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
COROUTINE = 0x80  # inspect.CO_COROUTINE
PLAIN = (int, float, str, bool, list, tuple, dict, set, bytes)  # have no form but text
PLAIN_MAX = 65536
VALUES_MAX = 100  # that Out remembers


class Channel:
    """Descriptors 3 and 4, moved out of the way of code that guesses low numbers."""

    def __init__(self):
        self.open(3, 4)
        self.lock = threading.Lock()
        self.main_thread = threading.get_ident()
        self.writing = False  # the main thread, the only one that signals reach
        self.interrupted = False
        self.taken = False  # a command, or a part of it

    def open(self, commands, messages):
        self.commands = self._move(commands)
        self.messages = self._move(messages)
        self.room = [bytearray(PIECE)]
        self.ahead = bytearray()  # what has come and was not asked for yet

    @staticmethod
    def _move(fd):
        moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, HIGH_FD)
        os.close(fd)
        return moved

    def _await(self, size):
        while len(self.ahead) < size:
            got = os.readv(self.commands, self.room)
            if not got:
                os._exit(0)
            self.taken = True
            self.ahead += self.room[0][:got]

    def receive(self):
        self._await(9)
        end = 9 + int(self.ahead[1:9], 16)
        self._await(end)
        kind, payload = chr(self.ahead[0]), bytes(self.ahead[9:end])
        del self.ahead[:end]
        return kind, payload

    def has_command(self):
        """An interrupt may come when one has been read and nobody has had the time to note that."""
        import select
        return bool(self.taken or self.room[0][0] or self.ahead
                    or select.select([self.commands], [], [], 0)[0])

    def forget_command(self):
        self.taken = False
        self.room[0][0] = 0

    def send(self, kind, payload):
        """A whole message or none: an interrupt waits until it is written."""
        message = memoryview(b"".join((kind, len(payload).to_bytes(4, "little"), payload)))
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
        if type(data) is not bytes:
            data = bytes(data)
        size = len(data)
        if size <= PIECE and not driver.forked:
            driver.channel.send(self.kind, data)
        else:
            for at in range(0, size, PIECE):
                self.write_piece(data[at:at + PIECE])
        return size

    def write_piece(self, piece):
        if not driver.forked:
            driver.channel.send(self.kind, piece)
            return
        while piece:
            piece = piece[os.write(self.fd, piece):]


write_text = io.TextIOWrapper.write


class Text(io.TextIOWrapper):
    """
    What one print writes leaves as one piece when it ends with a line, the rest at the end of the
    call, on flush, or when it is the other stream's turn. There is no buffer below: an interrupt
    during a write would leave in it what has been sent.
    """

    def write(self, text):
        if driver.writer is not self:
            driver.flush_writer()
            driver.writer = self
        length = write_text(self, text)
        if text[-1:] == "\n" or "\r" in text:
            self.flush()
        return length


def open_text(kind, fd, name):
    raw = Raw(kind, fd)
    raw.name = name
    text = Text(raw, "utf-8", "backslashreplace")
    text._CHUNK_SIZE = PIECE
    return text


def hide_driver(error):
    """Leaves only the user's own frames in a formatted exception and what led to it."""
    seen = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        frames = [frame for frame in error.stack if os.path.dirname(frame.filename) != FOLDER]
        while frames and os.path.basename(os.path.dirname(frames[0].filename)) == "asyncio":
            frames.pop(0)  # between us and a top-level await
        error.stack = traceback.StackSummary.from_list(frames)
        error = error.__cause__ or error.__context__


def is_silenced(code, last):
    """Whether a semicolon follows the last expression, which keeps its value from being shown."""
    if ";" not in code:
        return False
    line = code.replace("\r\n", "\n").replace("\r", "\n").split("\n")[last.end_lineno - 1]
    return line.encode("utf-8", "replace")[last.end_col_offset:].lstrip().startswith(b";")


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
    try:
        value = str(error)
    except Exception:
        value = "<the exception cannot be shown as text>"
    name = type(error).__name__
    return {"type": "error", "name": name, "value": value, "traceback": format_error(error, name, value)}


def format_error(error, name, value):
    try:
        formatted = traceback.TracebackException(type(error), error, error.__traceback__)
        hide_driver(formatted)
        return "".join(formatted.format())
    except Exception:  # code may have changed or used up what that needs
        return "%s: %s\n" % (name, value)


class Driver:
    folder = FOLDER

    def __init__(self):
        self.channel = Channel()
        self.running = False
        self.interrupted = False
        self.forked = False
        self.copying = False
        self.count = 0
        self.main = None
        self.handlers = {}
        self.parts = {}
        self.loop = None
        self.threads = []  # that earlier calls have left running
        self.writer = None

    def part(self, name):
        """A module of ours beside this file, loaded at its first use. It knows us as `driver`."""
        if name not in self.parts:
            self.parts[name] = types.ModuleType(name)
            self.load_part(name, self.parts[name])
        return self.parts[name]

    def load_part(self, name, module):
        path = "%s/python_%s.py" % (FOLDER, name)
        with open(path, encoding="utf-8") as file:
            code = compile(file.read(), path, "exec", dont_inherit=True)
        module.driver = self
        exec(code, module.__dict__)

    def prepare(self):
        self.new_main()
        builtins.display = self.display
        self.open_streams()
        sys.stdin = open(os.devnull)
        sys.path[0] = ""
        sys.argv = [""]
        os.register_at_fork(after_in_child=self.after_fork)

    def new_main(self):
        self.main = types.ModuleType("__main__")
        self.main.__dict__["__builtins__"] = builtins
        sys.modules["__main__"] = self.main
        builtins.In, builtins.Out = [""], {}
        builtins._ = builtins.__ = builtins.___ = ""

    def open_streams(self):
        self.stdout = open_text(b"o", 1, "<stdout>")
        self.stderr = open_text(b"e", 2, "<stderr>")
        self.writer = self.stdout
        sys.stdout = sys.__stdout__ = self.stdout
        sys.stderr = sys.__stderr__ = self.stderr

    def after_fork(self):
        """A forked child has no part in the conversation, unless it is to be a context itself."""
        if not self.forked and not self.copying:
            self.forked = True
            self.channel.close()

    def catch_interrupts(self):
        """Before each call, for code may change it. Without the enums of the module signal."""
        _signal.signal(_signal.SIGINT, self.on_interrupt)

    def on_interrupt(self, number, frame):
        if not self.running:
            # For a call that is on its way; one that has just ended is not meant any more.
            self.interrupted = self.channel.has_command()
        elif self.channel.writing:
            self.channel.interrupted = True
        else:
            raise KeyboardInterrupt

    def record(self, record):
        self.channel.send(b"j", json.dumps(record, ensure_ascii=False).encode("utf-8", "replace"))

    def show(self, value):
        """The value of a call."""
        if value is None:
            return
        self.remember(value)
        if type(value) in PLAIN and not self.forked:
            text = repr(value)
            if len(text) <= PLAIN_MAX:
                self.flush()
                data = {"text/plain": text}
                self.record({"type": "result", "text": text, "data": data, "is_main": True})
                return
        self.part("display").show(value, True)

    def remember(self, value):
        """As notebooks do; variables of the code with these names come before them."""
        builtins.___, builtins.__, builtins._ = builtins.__, builtins._, value
        builtins.Out[self.count] = value
        if len(builtins.Out) > VALUES_MAX:
            del builtins.Out[next(iter(builtins.Out))]

    def display(self, *values, **options):
        return self.part("display").display(*values, **options)

    def parse(self, code, filename):
        """The tree of the code, which may have lines of notebooks in it, and the code without."""
        while True:
            try:
                return compile(code, filename, "exec", ast.PyCF_ONLY_AST | AWAIT, True), code
            except SyntaxError as error:
                failure = error
            code = self.translate(code, failure)

    def translate(self, code, failure):
        magics = self.part("magics")
        translated = magics.translate(code, failure)
        if translated is None:
            raise failure
        setattr(builtins, magics.CALL, magics.call)
        return translated

    def compute(self, code):
        """What the code object gives, awaited where it awaits."""
        value = eval(code, self.main.__dict__)
        return self.wait(value) if code.co_flags & COROUTINE else value

    def wait(self, coroutine):
        """All calls share one event loop, which runs while a call awaits."""
        import asyncio
        if self.loop is None or self.loop.is_closed():
            self.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self.loop)
        task = self.loop.create_task(coroutine)
        try:
            return self.loop.run_until_complete(task)
        except BaseException:
            if not task.done():
                task.cancel()
                self.loop.run_until_complete(asyncio.wait([task]))
            raise

    def evaluate(self, code, filename):
        """All statements, then the value of the last one if it is an expression."""
        if "\n" not in code:
            # Most calls of one line are expressions, which need no tree.
            try:
                expression = compile(code, filename, "eval", AWAIT, True)
            except SyntaxError:
                pass
            else:
                return self.show(self.compute(expression))
        tree, code = self.parse(code, filename)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        self.compute(compile(tree, filename, "exec", AWAIT, True))
        if last is None:
            return
        expression = ast.Expression(last.value)
        value = self.compute(compile(expression, filename, "eval", AWAIT, True))
        if not is_silenced(code, last):
            self.show(value)

    def end_figures(self, error):
        """Open figures are results of the call, unless it was interrupted."""
        if isinstance(error, KeyboardInterrupt):
            self.part("display").close_figures()
        else:
            self.part("display").show_figures()

    def flush_writer(self):
        try:
            self.writer.flush()
        except (ValueError, RuntimeError):  # it is closed, or we interrupted its writing
            pass

    def flush(self):
        if sys.stdout is self.stdout and sys.stderr is self.stderr:
            self.flush_writer()  # the other one is empty
            return
        for stream in {id(s): s for s in (sys.stdout, self.stdout, sys.stderr, self.stderr)}.values():
            try:
                stream.flush()
            except (ValueError, AttributeError, OSError):
                pass

    def guarded(self, function, *args):
        """Calls the function, interruptibly; the exception that ended it, or None."""
        try:
            try:
                self.running = True
                if self.interrupted:
                    raise KeyboardInterrupt
                function(*args)
            finally:
                self.running = False
        except BaseException as error:
            return error
        return None

    def run(self, payload, tidy=None):
        result = self.execute_with(payload)
        if tidy:
            tidy()
        self.done(result)

    def done(self, exit_code):
        self.channel.forget_command()
        self.interrupted = False
        self.channel.send(b"d", bytes([exit_code]))

    def execute_with(self, payload):
        """Runs one call with variables of its own, which come before the code."""
        start = 8 + int(payload[:8], 16)
        if start == 8:
            return self.execute(payload[8:])
        environ = os.environb
        before = {}
        for assignment in payload[8:start].split(b"\0")[:-1]:
            name, _, value = assignment.partition(b"=")
            before.setdefault(name, environ.get(name))
            environ[name] = value
        result = self.execute(payload[start:])
        for name, value in before.items():
            if value is not None:
                environ[name] = value
            elif name in environ:
                del environ[name]
        return result

    def execute(self, code):
        """Runs one call and reports all but its end; its exit code."""
        self.count += 1
        filename = "<call-%d>" % self.count
        text = code.decode("utf-8", "replace")
        linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
        builtins.In.append(text)
        if self.stdout.closed or self.stderr.closed:
            self.open_streams()
        self.catch_interrupts()
        self.channel.interrupted = False
        self.threads = list(threading._active.values())
        error = self.guarded(self.evaluate, text, filename)
        self.interrupted = False
        if "matplotlib._pylab_helpers" in sys.modules and not self.forked:
            late_error = self.guarded(self.end_figures, error)
            if error is None:
                error = late_error
        if self.forked:
            self.leave_child(error)
        if isinstance(error, KeyboardInterrupt):
            self.part("threads").end_all_but(self.threads)
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

    def rehearse(self, payload):
        """
        A first call that leaves no trace. It is found as calls are: what only a real one touched
        would be copied then, page by page. Its end is told last, when the process is at rest.
        """
        self.handlers["r"](payload, self.forget_call)

    def forget_call(self):
        self.count = 0
        linecache.cache.pop("<call-1>", None)
        self.new_main()
        gc.collect()
        gc.freeze()

    def adopt(self, payload):
        """This process may be a copy of another: nothing random of before may go on."""
        entropy = bytes.fromhex(payload[:64].decode())
        cwd, *env = [os.fsdecode(part) for part in payload[64:].split(b"\0")[:-1]]
        for assignment in env:
            name, equals, value = assignment.partition("=")
            if equals:
                os.environ[name] = value
            else:
                os.environ.pop(name, None)
        failed = 0
        if cwd:
            try:
                os.chdir(cwd)
            except OSError:
                failed = 1
        self.part("imports").reseed(entropy)
        return failed

    def greet(self, payload):
        self.done(self.adopt(payload))

    def notice(self, payload):
        """Comes between calls: an interrupt meanwhile is meant for a call behind it, if any."""
        self.channel.forget_command()
        self.adopt(payload)

    def leave_zygote(self, payload):
        if self.part("copies").leave_zygote(payload):
            self.done(0)

    def serve_jails(self, payload):
        self.part("copies").serve_jails(payload)

    def serve(self):
        self.handlers = {"r": self.run, "w": self.rehearse, "n": self.notice,
                         "z": self.leave_zygote, "a": self.greet, "j": self.serve_jails}
        while True:
            kind, payload = self.channel.receive()
            self.handlers[kind](payload)


driver = Driver()
driver.catch_interrupts()
driver.part("imports").install()
if os.environ.pop("MSB_WARM", None):
    os.environ.setdefault("MPLBACKEND", "Agg")
    for part in ("copies", "data", "display", "jails", "magics", "threads"):
        driver.part(part)
    driver.part("imports").preload()
    driver.part("copies").connect(5)
driver.prepare()
driver.serve()
