"""msb itself: by its commands and over JSON-RPC, machines and jails, made ahead or not."""
import contextlib
import functools
import os
import re
import shutil
import subprocess
import sys
import threading
import time

from contender import HOME, INSIDE, TESTS, Contender
from machine import SETTLE_S, growth, usage
from measures import ANSWER, CODE, Samples, elapsed_ms, first_output_ms, output_of, port_speeds, repeat
from steps import Failed

sys.path.insert(0, TESTS)
from agent_harness import DATA, EOF, FILE_CHANGES, FILE_MAKE, FILE_READ, FILE_WRITE, STDIN  # noqa: E402
from keeper_client import Keeper  # noqa: E402
from pool_server import MSB, PoolServer  # noqa: E402

WALLS = {"vm": "a machine; QEMU confined by namespaces, filter, no capabilities",
         "jail": "namespaces, filter, few capabilities, Landlock"}
ZYGOTE_S = 60
LENGTH = re.compile(rb"Content-Length: (\d+)")
QUIET_S = 0.1  # so that what is left to do after one sandbox does not count for the next


class Ours(Contender):
    ours = True
    version = (MSB, "--version")

    def __init__(self, engine):
        self.engine = engine
        self.name = "%s-%s" % (engine, self.way)
        self.title = "msb %s, %s" % (engine, self.how)
        self.wall = WALLS[engine]

    def enter(self):
        """In the step: what all that is started there gets."""
        os.environ.update(MSB_HOME=HOME, MSB_ENGINE=self.engine)

    def missing(self):
        if self.engine == "jail" and os.geteuid() != 0:
            return "jails need root"
        return None


# ---- by command -----------------------------------------------------------------------------------


class Command(Ours):
    """msb exe: a clone made for it, its warm interpreter."""
    way, how = "cli", "command"
    parts = ("first", "burst", "again", "pandas")

    def python(self, code):
        self.enter()
        return [MSB, "exe", "python", "-c", code]

    def start(self, name):
        self.enter()
        output_of([MSB, "exe", "python", "--name", name, "--detach", "-c", CODE])

    def python_again(self, name, code):
        return [MSB, "exec", name, "-c", code]

    def remove(self, name):
        subprocess.run([MSB, "stop", name], capture_output=True)


class CommandProcess(Command):
    """The same with a python3 process that is new, as with the peers."""
    way, how = "cli-process", "command, new python3 process"
    parts = ("first", "burst", "again", "pandas", "inside", "ports", "keeper")

    def python(self, code):
        self.enter()
        return [MSB, "exe", "python", "--", "python3", "-c", code]

    def python_again(self, name, code):
        return [MSB, "exec", name, "--", "python3", "-c", code]

    def command_inside(self, *args):
        self.enter()
        return [MSB, "exe", "python", "-v", INSIDE + ":/media:ro", "--", *args, "/tmp"]

    def ports(self, size):
        self.enter()
        name = "bench-%d-port" % os.getpid()
        try:
            output_of([MSB, "exe", "python", "--name", name, "--detach", "-p", "0:7000", "-v", INSIDE + ":/media:ro",
                       "--", "sh", "-c", "nohup python3 /media/network.py serve 7000 >/dev/null 2>&1 &"])
            with Keeper(HOME, name) as keeper:
                port = keeper.status()["ports"][0]["host"]
            return port_speeds(port, size)
        finally:
            self.remove(name)

    def keeper(self, size):
        """Files through the keeper's socket in MB/s, and reports of what has changed in a folder in ms."""
        with self.idle(1) as (name,), Keeper(HOME, name) as keeper:
            data = os.urandom(size)
            into = elapsed_ms(lambda: keeper.call(FILE_WRITE, data, path="/tmp/file"))
            out = elapsed_ms(lambda: keeper.call(FILE_READ, path="/tmp/file"))
            keeper.call(FILE_MAKE, path="/tmp/work")
            reports = repeat(lambda: elapsed_ms(lambda: report_changes(keeper)), 10, 10)
        return {"in": round(size / into / 1000, 1), "out": round(size / out / 1000, 1),
                "changes_ms": reports.summary().get("p50")}


def report_changes(keeper):
    keeper.begin(FILE_CHANGES, path="/tmp/work")
    while keeper.frame()[1] != DATA:
        pass
    keeper.send(EOF, STDIN)
    keeper.finish()


class ColdTemplate(Command):
    """The first run of an image on a machine: its template has to be made."""
    way, how = "template", "command, no template yet"
    parts = ("first",)
    most = 3

    def firsts(self, count, seconds, code=CODE):
        def once():
            shutil.rmtree(os.path.join(HOME, "templates"), ignore_errors=True)
            return first_output_ms(self.python(code))
        return repeat(once, count, seconds)


# ---- over JSON-RPC --------------------------------------------------------------------------------


def zygote_listens():
    accepts = "00010000"  # the flag of listening sockets
    with open("/proc/net/unix") as sockets:
        return any("@msb-zygote-" in line and line.split()[3] == accepts for line in sockets)


def await_zygote():
    deadline = time.monotonic() + ZYGOTE_S
    while not zygote_listens() and time.monotonic() < deadline:
        time.sleep(0.1)


@functools.lru_cache(maxsize=None)
def request_of(method, name, code=None, image=None):
    """Its bytes; the same one is not made twice."""
    more = {"language": "python", "code": code} if code else {"config": {"image": image}}
    return PoolServer.request(method, sandbox=name, namespace="default", **more)


@functools.lru_cache(maxsize=None)
def session_request(name, code):
    return PoolServer.request("session.run_code", session_id=name, code=code)


def receive(connection):
    """A whole answer; nothing when the connection has ended."""
    told = b""
    while piece := connection.socket.recv(65536):
        told += piece
        head, _, body = told.partition(b"\r\n\r\n")
        length = LENGTH.search(head)
        if length and len(body) >= int(length[1]):
            return told
    return b""


def exchange(server, connection, request):
    """A request and its answer, with as little of Python in between as there can be: that is on the clock."""
    used = connection or server.connection
    used.send(request)
    told = receive(used)
    if not told and not connection:  # closed because it was idle
        server.connection = server.connect()
        return exchange(server, server.connection, request)
    if b'"error"' in told or not told:
        raise Failed("it answered %r" % told)
    return told


class Rpc(Ours):
    """A server; requests go over connections that are open already."""
    way, how = "rpc", "JSON-RPC, clone"
    parts = ("first", "burst", "again", "pandas", "memory", "requests", "density")
    stock = 0

    @contextlib.contextmanager
    def server(self, stock):
        """With so many sandboxes waiting in its pool; what still runs at the end is stopped."""
        self.enter()
        os.environ.pop("MSB_LOG", None)
        self.names = set()
        with PoolServer(HOME, size=stock, max=stock) as server:
            try:
                self.warm_up(server, stock)
                yield server
            finally:
                self.end_all(server)

    def warm_up(self, server, stock):
        """As a server is that has run for a while: the jails that wait were made after the zygote."""
        self.begin(server, "bench-warm-up")
        self.ask(server, "bench-warm-up", CODE)
        if self.engine == "jail":
            await_zygote()
            for number in range(stock):
                self.begin(server, "bench-warm-up-%d" % number)
        self.end_all(server)
        self.settle(server, stock)

    def settle(self, server, stock):
        if stock:
            server.await_counts(lambda counts: counts["stock"] >= stock)
        time.sleep(QUIET_S)

    def begin(self, server, name, connection=None):
        self.names.add(name)
        exchange(server, connection, request_of("sandbox.start", name, image="microsandbox/python"))

    def end(self, server, name):
        self.names.discard(name)
        server.stop(name)

    def end_all(self, server):
        for name in list(self.names):
            with contextlib.suppress(RuntimeError):
                self.end(server, name)

    def ask(self, server, name, code, connection=None):
        told = exchange(server, connection, request_of("sandbox.repl.run", name, code=code))
        if b'"text":"%b"' % ANSWER not in told:
            raise Failed("it answered %r" % told)

    def clear(self, server):
        """After a sample, off the clock."""
        self.end_all(server)
        self.settle(server, self.stock)

    def first(self, server, name, code=CODE, connection=None):
        self.begin(server, name, connection)
        self.ask(server, name, code, connection)

    def firsts(self, count, seconds, code=CODE):
        with self.server(self.stock) as server:
            return repeat(lambda: elapsed_ms(lambda: self.first(server, "bench", code)), count, seconds,
                          lambda: self.clear(server))

    def burst(self, count):
        with self.server(count if self.stock else 0) as server, contextlib.ExitStack() as stack:
            connections = [stack.enter_context(server.connect()) for _ in range(count)]
            samples = Samples()

            def first(number):
                self.first(server, "bench-%d" % number, connection=connections[number])
                return (time.monotonic() - began) * 1000

            threads = [threading.Thread(target=samples.take, args=(functools.partial(first, number),))
                       for number in range(count)]
            began = time.monotonic()
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            return samples

    def agains(self, count, seconds):
        with self.server(self.stock) as server:
            self.begin(server, "bench")
            self.ask(server, "bench", CODE)
            return repeat(lambda: elapsed_ms(lambda: self.ask(server, "bench", CODE)), count, seconds)

    def requests(self, count, seconds):
        """The requests of a sandbox's life one by one."""
        found = {name: Samples() for name in ("start", "first call", "next call", "stop")}
        with self.server(self.stock) as server:
            def live():
                found["start"].take(lambda: elapsed_ms(lambda: self.begin(server, "bench")))
                for call in ("first call", "next call"):
                    found[call].take(lambda: elapsed_ms(lambda: self.ask(server, "bench", CODE)))
                found["stop"].take(lambda: elapsed_ms(lambda: self.end(server, "bench")))
            repeat(live, count, seconds, lambda: self.clear(server))
        return found

    def start_more(self, server, names, count):
        """Until there are so many names; ends early when a start fails."""
        def begin(name):
            self.begin(server, name)
            names.append(name)

        samples = Samples()
        for number in range(len(names), count):
            samples.take(lambda: elapsed_ms(lambda: begin("bench-%d" % number)))
            if samples.failures:
                break
        return samples

    def weigh(self, count):
        with self.server(0) as server:
            names, before = [], usage()
            self.start_more(server, names, count)
            for name in names:
                self.ask(server, name, CODE)
            time.sleep(SETTLE_S)
            return growth(before, usage(), len(names))

    def density(self, counts):
        """Ever more at once: whether each answers, and the memory they take together."""
        found, names = [], []
        with self.server(0) as server:
            before, began = usage(), time.monotonic()
            for count in counts:
                started, answers = self.start_more(server, names, count), Samples()
                made_s = round(time.monotonic() - began, 1)
                for name in names:
                    answers.take(lambda: elapsed_ms(lambda: self.ask(server, name, CODE)))
                time.sleep(SETTLE_S)
                found.append({"wanted": count, "alive": len(names), "made_s": made_s, "start": started.summary(),
                              "answers": answers.summary(), **growth(before, usage(), len(names))})
        return found


class Pool(Rpc):
    way, how = "pool", "JSON-RPC, from the pool"
    parts = ("first", "burst", "again", "pandas", "memory", "requests")
    stock = 2

    def weigh(self, count):
        """Those that wait: what so many more of them take, without the server and what is there once."""
        def with_stock(stock):
            before = usage()
            with self.server(stock):
                time.sleep(SETTLE_S)
                return growth(before, usage(), 1)
        few, many = with_stock(1), with_stock(count + 1)
        return {"count": count, **{key: round((many[key] - few[key]) / count, 1) for key in ("mib", "pss_mib")}}


class OneRequest(Pool):
    """One request makes a session and runs code in it, as the tools of an assistant do."""
    way, how = "one-request", "JSON-RPC, one request, from the pool"
    parts = ("first", "burst")

    def enter(self):
        super().enter()
        os.environ.update(MSB_MAX_SESSIONS="1000")

    def first(self, server, name, code=CODE, connection=None):
        self.names.add(name)
        told = exchange(server, connection, session_request(name, code))
        if b'"stdout":"%b\\n"' % ANSWER not in told:
            raise Failed("it answered %r" % told)

    def end(self, server, name):
        if name.startswith("bench-warm-up"):
            super().end(server, name)
            return
        self.names.discard(name)
        server.call("session.stop", session_id=name)


class PoolProcess(Pool):
    """As the peers do it: a python3 process that is new."""
    way, how = "pool-process", "JSON-RPC, from the pool, new python3 process"
    parts = ("first", "burst", "again", "pandas")

    def ask(self, server, name, code, connection=None):
        result = server.call("sandbox.command.run", connection, sandbox=name, namespace="default", command="python3",
                             args=["-c", code])
        told = "\n".join(line["text"] for line in result["output"])
        if told != ANSWER.decode():
            raise Failed("it answered %r" % told)


def all_ours():
    ways = (OneRequest, Pool, PoolProcess, Rpc, Command, CommandProcess)
    return [way(engine) for engine in ("vm", "jail") for way in ways] + [ColdTemplate("vm")]
