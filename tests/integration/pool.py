"""Sandboxes from the pool: each handed out once, unlike every other, with the settings asked for.

    pool.py HOME TEST…

MSB_ENGINE chooses what isolates them.
"""
import concurrent.futures
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading

from http_server import MSB
from keeper_client import Keeper
from pool_server import PoolServer

TRAITS = """
import json, os, random, socket, uuid, numpy, tempfile
print(json.dumps([open("/etc/machine-id").read(), socket.gethostname(), random.random(),
                  os.urandom(8).hex(), str(uuid.uuid4()), float(numpy.random.rand()),
                  next(tempfile._get_candidate_names())]))
"""
ENGINE = os.environ.get("MSB_ENGINE", "vm")
ROUNDS = int(os.environ.get("POOL_ROUNDS") or {"jail": 100, "vm": 6}[ENGINE])
MANY = {"jail": 24, "vm": 6}[ENGINE]


# What the proxy inside says about a host that was not named.
CONNECT_OUT = """
import socket
s = socket.create_connection(("127.0.0.1", 3128), 20)
s.sendall(b"CONNECT other.invalid:80 HTTP/1.1\\r\\n\\r\\n")
print(s.recv(100).split()[1].decode())
"""


def traits_of(server, name, **where):
    return server.run(name, TRAITS.replace('"', "'"), **where)


def check(actual, expected):
    assert actual == expected, f"{actual!r} instead of {expected!r}"


def keepers_ahead(home):
    try:
        return [int(pid) for pid in os.listdir(os.path.join(home, "sandboxes", ".ahead"))]
    except FileNotFoundError:
        return []


def fill(server, count):
    """Asks for a sandbox, so that the pool knows what is wanted, and waits until it has that."""
    server.start("first")
    server.stop("first")
    server.await_counts(lambda counts: counts["stock"] >= count)


def status_of(home, name, namespace="default"):
    with Keeper(home, name, namespace) as keeper:
        return keeper.status()


def is_gone(pid):
    try:
        os.kill(pid, 0)
        return False
    except ProcessLookupError:
        return True


def await_gone(pids):
    """They end by themselves; 20 seconds are for a host that is busy."""
    wait = threading.Event()
    for _ in range(400):
        if all(map(is_gone, pids)):
            return
        wait.wait(0.05)
    raise AssertionError(f"still there: {[pid for pid in pids if not is_gone(pid)]}")


def drained_again_and_again(home):
    """As often as asked for: never one twice, never two alike, and always full again."""
    seen, keepers = set(), set()
    with PoolServer(home, size=2, max=2) as server:
        fill(server, 2)
        for i in range(ROUNDS):
            before = server.counts
            server.start("one")
            server.start("two")
            for name in ("one", "two"):
                traits = eval(traits_of(server, name))
                assert traits[1] == name, traits
                for trait in traits[:1] + traits[2:]:
                    assert trait not in seen, (trait, seen)
                    seen.add(trait)
                keepers.add(status_of(home, name)["keeper_pid"])
                server.stop(name)
            server.await_counts(lambda counts: counts["stock"] == 2
                                and counts["hits"] >= before["hits"] + 2)
        check(server.counts["hits"], 2 * ROUNDS)
        check(server.counts["misses"], 1)
    check(len(keepers), 2 * ROUNDS)


def many_at_once(home):
    """More than there are in stock: nobody gets another's, nobody gets an error."""
    count, outputs = MANY, {}

    def use(i):
        connection = server.connect()
        server.start(f"box-{i}", connection, envs=[f"NUMBER={i}"])
        outputs[i] = server.run(f"box-{i}", "import os; print(os.environ['NUMBER'], open('/etc/machine-id').read())",
                                connection).split()
        connection.close()
    with PoolServer(home, size=3, max=3) as server:
        fill(server, 3)
        threads = [threading.Thread(target=use, args=(i,)) for i in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        check({i: int(output[0]) for i, output in outputs.items()}, {i: i for i in range(count)})
        check(len({output[1] for output in outputs.values()}), count)
        check(len({status_of(home, f"box-{i}")["keeper_pid"] for i in range(count)}), count)
        for i in range(count):
            server.stop(f"box-{i}")
        assert server.counts["hits"] >= 3 and server.counts["misses"] >= 2, server.counts


def settings_reach_it(home):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with PoolServer(home, size=1, max=1) as server:
        fill(server, 1)
        server.start("box", namespace="team", envs=["COLOR=blue", "PATH=/opt:/usr/bin:/bin"],
                     workdir="/tmp", ports=[f"{port}:8000"], output_limit=1000,
                     network="allowed.invalid")
        server.await_counts(lambda counts: counts["hits"] == 1)
        check(server.run("box", "import os, socket\nprint(os.environ['COLOR'], os.environ['PATH'], "
                         "os.getcwd(), socket.gethostname(), os.getuid())", namespace="team"),
              "blue /opt:/usr/bin:/bin /tmp box 1000")
        result = server.call("sandbox.command.run", sandbox="box", namespace="team", command="sh",
                             args=["-c", "echo $COLOR $(pwd) $(hostname)"])
        check(result["output"], [{"stream": "stdout", "text": "blue /tmp box"}])
        server.run("box", "import http.server, threading\n"
                   "s = http.server.HTTPServer(('127.0.0.1', 8000), http.server.SimpleHTTPRequestHandler)\n"
                   "threading.Thread(target=s.serve_forever, daemon=True).start()", namespace="team")
        with socket.create_connection(("127.0.0.1", port), 20) as connection:
            connection.sendall(b"HEAD / HTTP/1.0\r\n\r\n")
            assert connection.recv(100).startswith(b"HTTP/1.0 200"), "no server at the port"
        check(server.run("box", CONNECT_OUT, namespace="team"), "403")
        with Keeper(home, "box", "team") as keeper:
            output = keeper.run("print('x' * 2000)")[0]
            check(sum(map(len, output.values())), 1000)
        status = status_of(home, "box", "team")
        check((status["namespace"], status["name"], status["workdir"]), ("team", "box", "/tmp"))
        assert status["uptime_us"] < 60e6 and status["cpu_us"] >= 0, status
        check(subprocess.run([MSB, "ps", "--namespace", "default", "--json"], check=True,
                             capture_output=True, text=True).stdout.strip(), "[]")
        server.stop("box", namespace="team")


def no_trace_of_rehearsals(home):
    with PoolServer(home, size=1, max=1) as server:
        fill(server, 1)
        server.start("box")
        server.await_counts(lambda counts: counts["hits"] == 1)
        answer = server.call("sandbox.repl.run", sandbox="box", language="python",
                             code="print(len(In), Out, '_' in globals(), sorted(globals()))")
        plain = subprocess.run([MSB, "exe", "python", "-c",
                                "print(len(In), Out, '_' in globals(), sorted(globals()))"],
                               check=True, capture_output=True, text=True).stdout.strip()
        check(answer["output"], [{"stream": "stdout", "text": plain}])
        check(server.run("box", "1/0").count("<call-2>"), 1)
        with Keeper(home, "box") as keeper:
            check(keeper.run("1")[1]["count"], 3)
        check(os.path.getsize(os.path.join(home, "sandboxes/default/box/output.log")) > 0, True)
        server.stop("box")


def thawed_from(home, name):
    """The file that a machine's translated code comes from."""
    with open("/proc/%d/maps" % status_of(home, name)["machine_pid"]) as maps:
        return next(iter(re.findall(r"/templates/.*/(frozen\S*)", maps.read())), None)


def thawed_from_one_that_has_settled(home):
    """So are plain starts from then on, unless something is wrong with it."""
    with PoolServer(home, size=1, max=1) as server:
        fill(server, 1)
        server.start("box")
        server.await_counts(lambda counts: counts["hits"] == 1)
        check(thawed_from(home, "box"), "frozen-settled")
        start = [MSB, "exe", "python", "--detach", "--name"]
        subprocess.run([*start, "plain"], check=True, stdin=subprocess.DEVNULL)
        check(thawed_from(home, "plain"), "frozen-settled")
        for folder in os.scandir(os.path.join(home, "templates")):
            file = os.path.join(folder, "frozen-settled")
            if os.path.exists(file):
                with open(file, "rb") as whole, open(file + ".cut", "wb") as cut:
                    cut.write(whole.read(4096))
                os.replace(file + ".cut", file)
        subprocess.run([*start, "quick"], check=True, stdin=subprocess.DEVNULL)
        check(thawed_from(home, "quick"), "frozen")
        for name in ("box", "plain", "quick"):
            server.stop(name)


def other_machines_have_pools_of_their_own(home):
    """What a waiting one cannot become is started plainly, and waits itself the next time."""
    other = [{"memory": 1536}]
    if ENGINE == "jail":
        other += [{"memory": 512, "cpus": 2}, {"image": "microsandbox/node"}, {"processes": 99}]
    with PoolServer(home, size=1, max=1) as server:
        fill(server, 1)
        for i, settings in enumerate(other):
            server.start("plain", **settings)
            check(server.counts["hits"], i)
            server.stop("plain")
            server.await_counts(lambda counts: counts["stock"] == i + 2)
            server.start("pooled", **settings)
            server.await_counts(lambda counts: counts["hits"] == i + 1)
            status = status_of(home, "pooled")
            for key, value in settings.items():
                check(status[{"memory": "memory_mb"}.get(key, key)], value)
            server.stop("pooled")
            server.await_counts(lambda counts: counts["stock"] == i + 2)
        server.start("box")
        server.await_counts(lambda counts: counts["hits"] == len(other) + 1)
        check(status_of(home, "box")["memory_mb"] not in (512, 1536), True)
        server.stop("box")


def shared_folders_are_there(home):
    """A waiting machine cannot get them: a plain one does, without an error."""
    with tempfile.TemporaryDirectory() as folder:
        with PoolServer(home, ["--allow-volumes", folder], size=1, max=1) as server:
            fill(server, 1)
            os.chmod(folder, 0o755)
            with open(os.path.join(folder, "word"), "w", encoding="ascii") as file:
                file.write("shared")
            server.start("box", volumes=[f"{folder}:/shared:ro"])
            check(server.run("box", "print(open('/shared/word').read())"), "shared")
            server.stop("box")
            check((server.counts["hits"], server.counts["stock"]), (0, 1))


def kill_launcher(server):
    pid = server.process.pid
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as children:
        os.kill(int(children.read().split()[0]), signal.SIGKILL)


def made_ahead_from_the_start(home):
    """Nobody has asked yet, nor any more after the launcher has died. An image that is not there is
    no reason to fail."""
    with PoolServer(home, size=1, max=1, images="python,no-such-image,") as server:
        server.await_counts(lambda counts: counts["stock"] == 1)
        server.start("box")
        check(server.run("box", "print(6*7)"), "42")
        server.await_counts(lambda counts: (counts["hits"], counts["misses"]) == (1, 0))
        server.stop("box")
        assert any("no-such-image nothing is made ahead" in line for line in server.lines)
        kill_launcher(server)
        server.await_counts(lambda _: any("the launcher has ended" in line for line in server.lines))
        server.start("other", memory=700)
        server.await_counts(lambda counts: counts["stock"] == 2)
        server.stop("other")


def names_that_are_taken(home):
    with PoolServer(home, size=1, max=1) as server:
        fill(server, 1)
        subprocess.run([MSB, "exe", "python", "--detach", "--name", "box", "--", "true"], check=True)
        check(server.start("box"), "Sandbox box started successfully")
        server.stop("box")
        server.start("box")
        server.await_counts(lambda counts: counts["hits"] == 1)
        refused = subprocess.run([MSB, "exe", "python", "--name", "box", "--", "true"],
                                 capture_output=True, text=True)
        assert refused.returncode == 125 and "running already" in refused.stderr, refused
        server.stop("box")


def the_dead_are_skipped(home):
    with PoolServer(home, size=2, max=2) as server:
        fill(server, 2)
        for pid in keepers_ahead(home):
            os.kill(pid, signal.SIGKILL)
        server.await_counts(lambda counts: counts["dropped"] == 2)
        server.start("box")
        check(server.run("box", "print(6*7)"), "42")
        server.stop("box")


def one_that_dies_when_it_is_taken(home):
    """Its keeper gets the settings and never answers: the start is made anew."""
    with PoolServer(home, size=1, max=1) as server:
        fill(server, 1)
        keeper = keepers_ahead(home)[0]
        os.kill(keeper, signal.SIGSTOP)
        starting = threading.Thread(target=server.start, args=("box",))
        starting.start()
        server.await_counts(lambda counts: counts["hits"] == 1)
        os.kill(keeper, signal.SIGKILL)
        starting.join(60)
        check(server.run("box", "print(6*7)"), "42")
        server.stop("box")


ONCE = "n = globals().get('n', 0) + 1; print(n)"


def a_first_call_comes_along(home):
    """One request makes the session and runs its code: once, also when the start is made anew."""
    with PoolServer(home, size=1, max=1) as server:
        fill(server, 1)
        hits = server.counts["hits"]
        check(server.call("session.run_code", code=ONCE, session_id="one")["stdout"], "1\n")
        check(server.counts["hits"], hits + 1)
        check(server.call("session.run_code", code="print(n)", session_id="one")["stdout"], "1\n")
        fill(server, 1)
        keeper = keepers_ahead(home)[0]
        os.kill(keeper, signal.SIGSTOP)
        with concurrent.futures.ThreadPoolExecutor() as others:
            call = others.submit(server.call, "session.run_code", code=ONCE, session_id="two")
            server.await_counts(lambda counts: counts["hits"] == hits + 2)
            os.kill(keeper, signal.SIGKILL)
            check(call.result(60)["stdout"], "1\n")
        for session in ("one", "two"):
            server.call("session.stop", session_id=session)


def nothing_outlives_the_server(home):
    for victim in ("stop", "server"):
        server = PoolServer(home, size=2, max=2)
        fill(server, 2)
        keepers = keepers_ahead(home)
        check(len(keepers), 2)
        if victim == "server":
            server.process.kill()
            await_gone(keepers)
        server.__exit__()
        await_gone(keepers)


def too_long_settings_are_refused(home):
    with PoolServer(home, size=1, max=1) as server:
        fill(server, 1)
        try:
            server.start("box", envs=["LONG=" + "x" * 70000])
        except RuntimeError as error:
            assert "too long" in str(error), error
        else:
            raise AssertionError("they were taken")
        check(server.counts["stock"], 1)
        server.start("box")
        server.stop("box")


def what_waits_outlives_the_launcher(home):
    with PoolServer(home, size=2, max=2) as server:
        fill(server, 2)
        kill_launcher(server)
        server.await_counts(lambda _: any("the launcher has ended" in line for line in server.lines))
        hits = server.counts["hits"]
        server.start("box")
        check(server.run("box", "print(6*7)"), "42")
        check(server.counts["hits"], hits + 1)
        server.stop("box")
        server.await_counts(lambda counts: counts["stock"] == 2)


def sized_by_demand(home):
    connections = []
    with PoolServer(home, size=1, max=3) as server:
        fill(server, 1)
        for i, connection in enumerate([server.connect() for _ in range(8)]):
            server.send("sandbox.start", connection, sandbox=f"box-{i}",
                        config={"image": "microsandbox/python"})
            connections.append(connection)
        for connection in connections:
            assert "result" in connection.answer().json()
            connection.close()
        server.await_counts(lambda counts: counts["stock"] == 3)
        for i in range(8):
            server.stop(f"box-{i}")


def turned_off(home):
    with PoolServer(home, size=0) as server:
        server.start("box")
        check(server.run("box", "print(6*7)"), "42")
        check((server.counts["misses"], keepers_ahead(home)), (0, []))
        server.stop("box")


def main():
    home = sys.argv[1]
    os.environ["MSB_HOME"] = home
    for name in sys.argv[2:]:
        globals()[re.sub(r"\W", "_", name)](home)


if __name__ == "__main__":
    main()
