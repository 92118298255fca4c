"""Kills a server with calls under way, several times: nothing is lost, nothing is done twice.

Arguments: the msb program, the name of a sandbox that runs. MSB_HOME has the server.
"""

import http.client
import os
import select
import signal
import subprocess
import sys
import threading

from rpc_client import Client, Failed

MSB, BOX = sys.argv[1:]
ROUNDS, CLIENTS = 3, 4


def msb(*arguments):
    return subprocess.run([MSB, *arguments], check=True, capture_output=True, text=True).stdout


class Traffic:
    def __init__(self, url, name):
        self.url, self.name = url, name
        self.sent, self.done, self.ends = 0, [], None
        self.thread = threading.Thread(target=self.work)
        self.thread.start()

    def work(self):
        with Client(self.url) as client:
            while self.ends is None:
                mark = f"{self.name}-{self.sent}"
                self.sent += 1
                try:
                    client.run(BOX, f"open('/tmp/marks', 'a').write('{mark}\\n');")
                    self.done.append(mark)
                except (http.client.HTTPException, ConnectionError) as error:
                    self.ends = error
                except Failed as error:
                    raise SystemExit(f"an answer from a killed server: {error}") from error


def server_process():
    return next(line.split()[1].rstrip(",") for line in msb("server", "status").splitlines()
                if line.startswith("process"))


def round_of(number):
    url = msb("server", "status").splitlines()[0]
    traffic = [Traffic(url, f"{number}-{i}") for i in range(CLIENTS)]
    with Client(url) as client:
        while sum(len(one.done) for one in traffic) < 40:
            client.get("/api/v1/health")
    killed = os.pidfd_open(int(server_process()))
    signal.pidfd_send_signal(killed, signal.SIGKILL)
    assert select.select([killed], [], [], 60)[0], "it does not end"
    os.close(killed)
    for one in traffic:
        one.thread.join(60)
        assert one.ends is not None, "a call was left hanging"
    msb("server", "start", "--dev", "--port", "0", "--detach")
    return traffic


def main():
    with Client(msb("server", "status").splitlines()[0]) as client:
        client.run(BOX, "kept = 41")
    traffic = [one for number in range(ROUNDS) for one in round_of(number)]
    with Client(msb("server", "status").splitlines()[0]) as client:
        assert client.run(BOX, "kept + 1") == "42", "the context is not what it was"
        marks = client.run(BOX, "print(open('/tmp/marks').read(), end='')").splitlines()
    assert len(marks) == len(set(marks)), "something was done twice"
    lost = {mark for one in traffic for mark in one.done} - set(marks)
    assert not lost, f"answered but not done: {lost}"
    print(f"{len(marks)} calls, {ROUNDS} kills: none lost, none twice")


main()
