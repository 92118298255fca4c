"""An internet of its own, for tests of what a sandbox may reach: a network namespace with a name
server and a web server at 9.9.9.1, joined to the one that this runs in (9.9.9.2).

    unshare --net --mount internet.py TEST     runs one of the tests below; prints ok

Needs root, MSB and MSB_HOME. Nothing is left when it ends."""
import http.server
import os
import signal
import socket
import socketserver
import struct
import subprocess
import sys
import tempfile
import threading
import time

WORLD, HOST = "9.9.9.1", "9.9.9.2"
NAMES = {
    "public.test": [WORLD],
    "mixed.test": ["10.0.0.1", "127.0.0.1", WORLD],
    "second.test": ["9.9.9.77", WORLD],
    "private.test": ["10.0.0.1", "192.168.0.1"],
    "metadata.test": ["169.254.169.254"],
    "loopback.test": ["127.0.0.1"],
    "mapped.test": ["::ffff:127.0.0.1"],
    "host.test": [HOST],
    "closed.test": [WORLD],
    "turning.test": [WORLD],  # and from the second question on the host's loopback
}


# ---- the world -----------------------------------------------------------------------------------

class NameServer(socketserver.BaseRequestHandler):
    def handle(self):
        query, server = self.request
        labels, at = [], 12
        while query[at]:
            labels.append(query[at + 1:at + 1 + query[at]].decode().lower())
            at += 1 + query[at]
        kind = struct.unpack_from(">H", query, at + 1)[0]
        name = ".".join(labels)
        if name == "silent.test":
            return
        family = {1: socket.AF_INET, 28: socket.AF_INET6}.get(kind)
        found = [socket.inet_pton(family, text) for text in NAMES.get(name, [])
                 if family and (":" in text) == (kind == 28)]
        if name == "turning.test" and kind == 1:
            NAMES[name] = ["127.0.0.1"]
        flags = 0x8180 if name in NAMES else 0x8183
        head = query[:2] + struct.pack(">HHHHH", flags, 1, len(found), 0, 0)
        answers = b"".join(b"\xc0\x0c" + struct.pack(">HHIH", kind, 1, 0, len(data)) + data
                           for data in found)
        server.sendto(head + query[12:at + 5] + answers, self.client_address)


class Page(http.server.BaseHTTPRequestHandler):
    def log_message(self, *message):
        pass

    def do_GET(self):
        if self.path.startswith("/to/"):
            self.send_response(302)
            self.send_header("Location", "http://%s/" % self.path[4:])
            self.end_headers()
            return
        body = ("%s at %s" % (self.path, self.headers["Host"])).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def be_world():
    """In a namespace of its own; begins when the network is there."""
    print("made", flush=True)
    sys.stdin.readline()
    names = socketserver.ThreadingUDPServer((WORLD, 53), NameServer)
    threading.Thread(target=names.serve_forever, daemon=True).start()
    pages = socketserver.ThreadingTCPServer((WORLD, 80), Page)
    print("ready", flush=True)
    pages.serve_forever()


# ---- the host ------------------------------------------------------------------------------------

def join_world(world):
    inside = ["nsenter", "--net", "--target", str(world.pid), "ip"]
    for command in (["ip", "link", "set", "lo", "up"],
                    ["ip", "link", "add", "name", "msb0", "type", "veth", "peer", "name", "msb1",
                     "netns", str(world.pid)],
                    ["ip", "address", "add", HOST + "/24", "dev", "msb0"],
                    ["ip", "link", "set", "msb0", "up"],
                    [*inside, "address", "add", WORLD + "/24", "dev", "msb1"],
                    [*inside, "link", "set", "msb1", "up"]):
        subprocess.run(command, check=True)
    with tempfile.NamedTemporaryFile("w") as settings:
        settings.write("nameserver %s\n" % WORLD)
        settings.flush()
        subprocess.run(["mount", "--bind", settings.name, "/etc/resolv.conf"], check=True)


def msb(*arguments):
    done = subprocess.run([os.environ["MSB"], *arguments], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=90)
    return done.stdout + done.stderr


def start(network):
    assert msb("exe", "python", "--detach", "--name", "box", "--network", network, "--", "true") == ""


def fetch(url, *options):
    return msb("exec", "box", "--", "curl", "--silent", "--show-error", "--include", "--max-time",
               "40", *options, url)


def expect(part, url, *options):
    got = fetch(url, *options)
    assert part in got, "%s: %r" % (url, got)


def test_public():
    start("public")
    expect("/a?b at public.test", "http://public.test/a?b")
    expect("/ at public.test", "http://public.test/", "--proxytunnel")
    expect("/ at mixed.test", "http://mixed.test/")
    expect("/ at second.test", "http://second.test/")
    for name in "private.test", "metadata.test", "loopback.test", "mapped.test", HOST:
        expect(" 403 this sandbox may not connect to " + name, "http://%s/" % name)
    expect("/ at turning.test", "http://turning.test/")
    expect(" 403 this sandbox may not connect to turning.test", "http://turning.test/")
    expect("/ at mixed.test", "http://public.test/to/mixed.test", "--location")
    expect(" 403 this sandbox may not connect to private.test", "http://public.test/to/private.test",
           "--location")
    expect("9.9.9.2 is an address of the host", "http://host.test/")
    expect(" 502 cannot find missing.test", "http://missing.test/")
    expect(" 502 cannot connect to port 81 of closed.test", "http://closed.test:81/")
    expect(" 403 this sandbox may not connect to public.test:25", "http://public.test:25/",
           "--proxytunnel")


def test_list():
    start("public.test:80,*.other.test")
    expect("/ at public.test", "http://public.test/", "--header", "Host: private.test")
    expect(" 403 ", "http://mixed.test/")
    expect(" 403 ", "http://public.test:81/")
    expect(" 403 ", "http://9.9.9.1/")
    expect(" 502 cannot find a.other.test", "http://a.other.test/")


def test_silent_names():
    """A name server that does not answer holds nobody: not the sandbox's end either."""
    start("public")
    pid = int(msb("exec", "box", "--", "sh", "-c",
                  "curl -s http://silent.test/ >/dev/null 2>&1 & echo $!"))
    assert pid > 0
    time.sleep(1)
    msb("stop", "box")
    folder = os.path.join(os.environ["MSB_HOME"], "sandboxes", "default", "box")
    assert not os.path.exists(folder)


def main():
    if sys.argv[1] == "world":
        be_world()
    world = subprocess.Popen(["unshare", "--net", sys.executable, __file__, "world"],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert world.stdout.readline() == "made\n"
        join_world(world)
        world.stdin.write("\n")
        world.stdin.flush()
        assert world.stdout.readline() == "ready\n"
        globals()["test_" + sys.argv[1]]()
    finally:
        msb("stop", "box")
        world.send_signal(signal.SIGKILL)
        world.wait()
    print("ok")


main()
