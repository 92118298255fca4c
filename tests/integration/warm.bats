#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2154 # variables meant inside; stderr is set by bats
# Jails whose first interpreter is a copy of the zygote: nothing but the speed tells them from others.

load helpers

COPIES=4

setup_file() {
    [ "$(id -u)" -eq 0 ] || return 0
    export MSB_ENGINE=jail
    msb prepare python >&2
    msb stop --all >&2
    URL=$(msb server start --dev --port 0 --detach)
    export URL
    start_by_server "$URL"
    within 60 finds_zygote
}

setup() {
    needs_root
    export MSB_ENGINE=jail
}

teardown() {
    msb stop --all >&2
    rm -rf "$MSB_HOME/disks"
}

teardown_file() {
    msb server stop >&2 || true
}

# in_copy CODE [OPTIONS…]: in the context of a new jail
in_copy() {
    local code=$1
    shift
    msb exe python "$@" -c "$code" </dev/null
}

ORIGIN='import sys; print(any(type(f).__name__ == "Preloaded" for f in sys.meta_path))'

zygote() {
    pgrep --oldest --full '^python3 /run/msb/python.py$' --parent "$(keeper_of_zygote)"
}

keeper_of_zygote() {
    pgrep --full '^msb server: warm interpreter' --parent "$(launcher)"
}

launcher() {
    pgrep --full '^msb server: launcher' --parent "$(msb server status | sed -n 's/^process \([0-9]*\).*/\1/p')"
}

@test "it is like an interpreter that was started in its jail" {
    local copy plain
    copy=$(msb exe python -c - <"$BATS_TEST_DIRNAME/warm_look.py")
    plain=$(msb exe python -e PYTHONNOTHING=1 -c - <"$BATS_TEST_DIRNAME/warm_look.py")
    [ "$(grep -c . <<<"$copy")" -ge 30 ]
    assert_equal "$copy" "$plain"
    finds_zygote
}

@test "its namespaces are those of the other processes in its jail" {
    start_box box
    local look='import os; print(*[os.readlink(f"/proc/self/ns/{n}") for n in sorted(os.listdir("/proc/self/ns"))])'
    local context command
    context=$(MSB_HOME=$MSB_HOME python3 -c '
import sys; sys.path[:0] = [sys.argv[1], sys.argv[1] + "/../conformance"]
import engines, agent_harness
engine = engines.MachineEngine("box")
print(engine.run(sys.argv[2], "python").text(agent_harness.STDOUT), end="")
print(engine.run(sys.argv[3], "python").text(agent_harness.STDOUT), end="", file=sys.stderr)' \
        "$BATS_TEST_DIRNAME" "$look" "$ORIGIN" 2>"$BATS_TEST_TMPDIR/origin")
    command=$(msb exec box -- python3 -c "$look")
    assert_equal "$(<"$BATS_TEST_TMPDIR/origin")" True
    assert_equal "$context" "$command"
}

@test "attempts to get out fail there as well" {
    local attempts="mounts namespaces other_processes keys risky_calls kernel sockets personality old_calls
        terminals devices landlock kernel_files groups privileges ways_up" code
    code="import sys; sys.argv[1:] = '''$attempts'''.split(); $ORIGIN"$'\n'"$(<"$BATS_TEST_DIRNAME/jail_attempts.py")"
    run msb exe python --memory 256 -c - <<<"$code"
    assert_equal "$output" True
    assert_equal "$status" 0
}

@test "two at once are strangers" {
    local i values
    local -a jobs=()
    for ((i = 0; i < COPIES; i++)); do
        in_copy "$ORIGIN"'
import os, random, secrets, ssl, subprocess, tempfile, time, uuid
import numpy
print("random", random.random())
print("numpy", numpy.random.rand())
print("numpy.default_rng", numpy.random.default_rng().random())
print("uuid4", uuid.uuid4())
print("uuid1", uuid.uuid1())
print("secrets", secrets.token_hex())
print("ssl", ssl.RAND_bytes(16).hex())
print("temporary", tempfile.mktemp())
print("hash", subprocess.check_output(["python3", "-c", "print(hash(chr(97)))"], text=True).strip())
print("boot-id", open("/proc/sys/kernel/random/boot_id").read().strip())
print("namespace", os.readlink("/proc/self/ns/user"))
time.sleep(1)
assert len([p for p in os.listdir("/proc") if p.isdigit()]) == 2' >"$BATS_TEST_TMPDIR/copy-$i" &
        jobs+=("$!")
    done
    for i in "${jobs[@]}"; do
        wait "$i"
    done
    values=$(cat "$BATS_TEST_TMPDIR"/copy-*)
    assert_equal "$(grep -c True <<<"$values")" "$COPIES"
    assert_equal "$(grep -c ' ' <<<"$values")" $((COPIES * 11))
    assert_equal "$(grep ' ' <<<"$values" | sort | uniq -d)" ""
}

@test "limits of the jail hold for it" {
    run msb exe python --memory 128 -c 'bytearray(300 << 20)'
    [ "$status" -ne 0 ]
    run msb exe python --processes 20 -c '
import os, time
made = 0
try:
    while made < 100:
        if os.fork() == 0:
            time.sleep(5)
            os._exit(0)
        made += 1
except BlockingIOError:
    print(made < 20)'
    assert_equal "$output" True
    run msb exe python --open-files 256 -c 'import resource; print(resource.getrlimit(resource.RLIMIT_NOFILE))'
    assert_equal "$output" "(256, 256)"
}

@test "no setuid files in shared folders" {
    mkdir -p "$BATS_TEST_TMPDIR/shared"
    run in_copy "$ORIGIN"'
import os
open("/mnt/file", "w").close()
try:
    os.chmod("/mnt/file", 0o4755)
except PermissionError as error:
    print(error.strerror)' --volume "$BATS_TEST_TMPDIR/shared:/mnt"
    assert_equal "$output" "True
Operation not permitted"
}

@test "another user, or settings that count at the start: a plain start" {
    run -1 finds_zygote --user root
    run -1 finds_zygote --env PYTHONPATH=/tmp
    finds_zygote --env OTHER=1 --workdir /tmp
}

@test "files of its own, kept or copied: a plain start" {
    run -1 finds_zygote --keep --name box
    start_box original
    msb fork original copy
    run -0 msb exec copy -c "$ORIGIN"
    assert_equal "$output" False
    run -0 msb exec original -c "$ORIGIN"
    assert_equal "$output" True
}

@test "what starts a program of the image is there" {
    assert_equal "$(in_copy '
import multiprocessing, subprocess, sys
print(subprocess.check_output([sys.executable, "-c", "print(6 * 7)"], text=True).strip())
with multiprocessing.Pool(2) as pool:
    print(pool.map(abs, [-1, -2]))')" "42
[1, 2]"
}

@test "threads, signals and locks know the process for what it is" {
    assert_equal "$(in_copy '
import ctypes, multiprocessing, os, signal, threading, time
import numpy
libc = ctypes.CDLL(None)
assert threading.main_thread().native_id == threading.get_native_id() == os.getpid()
caught = []
signal.signal(signal.SIGUSR1, lambda number, frame: caught.append(threading.get_native_id()))
signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)
os.kill(os.getpid(), signal.SIGUSR1)
print(caught == [os.getpid()] * 2)

numbers = set()
threads = [threading.Thread(target=lambda: (numbers.add(threading.get_native_id()), time.sleep(0.1)))
           for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(len(numbers), os.getpid() in numbers)

a = numpy.ones((600, 600))
print(float((a @ a).sum()), 0 <= libc.sched_getcpu() < os.cpu_count())

lock = multiprocessing.Lock()
with lock:
    child = os.fork()
    if child == 0:
        libc.raise_ = getattr(libc, "raise")
        libc.raise_(signal.SIGTERM)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
child = os.fork()
if child == 0:
    libc.abort()
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))')" "True
8 False
216000000.0 True
-15
-6"
}

@test "the zygote has nothing but its image" {
    local zygote
    zygote=$(zygote)
    [ -n "$zygote" ]
    grep -q '^CapEff:.*0000000000000000$' "/proc/$zygote/status"
    grep -q '^NoNewPrivs:.*1$' "/proc/$zygote/status"
    grep -q '^Seccomp:.*2$' "/proc/$zygote/status"
    [ "$(awk '/^Uid:/ {print $2}' "/proc/$zygote/status")" -ge 2000000000 ]
    assert_equal "$(find "/proc/$zygote/root/proc" -mindepth 1 | head -1)" ""
    [ "$(readlink "/proc/$zygote/ns/net")" != "$(readlink /proc/self/ns/net)" ]
    [ "$(readlink "/proc/$zygote/ns/mnt")" != "$(readlink /proc/self/ns/mnt)" ]
}

@test "it dies: plain starts, and the next start by the server brings a new one" {
    local keeper
    keeper=$(keeper_of_zygote)
    kill -KILL "$(zygote)"
    within 5 is_gone "$keeper"
    run -1 finds_zygote
    msb stop first || true
    start_by_server "$URL"
    within 60 finds_zygote
}

@test "nothing is left behind" {
    local before
    before=$(zygote)
    msb stop --all
    msb server stop
    within 5 is_gone "$before"
    assert_nothing_left
}
