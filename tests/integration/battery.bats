#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2030,SC2031,SC2154,SC2216 # variables meant inside; stderr is set by bats; sleep reads nothing, on purpose
# What hostile code tries, for real, in either engine (MSB_ENGINE): to get out, to eat everything, to lie on
# the wire. Attempts are in battery.py; those upon a jail's kernel in jail.bats, those upon QEMU in
# isolation.bats, the limits one by one in limits.bats.

load helpers

SECRET=msb-secret-of-the-host

setup_file() {
    msb prepare python >&2
    msb stop --all >&2
    start_box attacker >&2
    start_box neighbour >&2
}

# Both are for all tests, also when one has failed.
teardown() {
    :
}

# attempt USER NAME ARGUMENT…
attempt() {
    local user=$1
    shift
    msb exec attacker --user "$user" -- python3 - "$@" <"$BATS_TEST_DIRNAME/battery.py"
}

# The same in the background, for at most so many seconds: attack SECONDS NAME ARGUMENT…
attack() {
    local seconds=$1
    shift
    "$MSB" exec attacker --timeout "$seconds" -- python3 - "$@" <"$BATS_TEST_DIRNAME/battery.py" \
        >"$BATS_TEST_TMPDIR/attack" 2>&1 3>&- &
}

answers() {
    [ "$(msb exec "$1" -- echo alive </dev/null)" = alive ]
}

# What root inside could have changed if the kernel were his.
host_state() {
    hostname
    cat /proc/sys/kernel/core_pattern /proc/sys/vm/swappiness /proc/sys/kernel/pid_max /proc/sys/net/ipv4/ip_forward \
        /proc/sys/kernel/modprobe
    [ "$(date +%s)" -gt 1700000000 ] && echo "the clock is right"
    cut -d' ' -f1 /proc/modules | sort
    grep -v '^msb-ordinary:' /etc/passwd # whom ordinary.bats makes, perhaps right now
    md5sum /etc/hostname "$MSB"
}

@test "files of the host are out of sight, by every name" {
    local file
    file=$(mktemp)
    echo "$SECRET" >"$file"
    chmod 644 "$file"
    attempt user host_file "$file" "$SECRET"
    attempt root host_file "$file" "$SECRET"
    attempt root raw_devices "$SECRET"
    msb exec attacker --user root -- sh -c "mkdir -p $(dirname "$file"); echo changed >$file; echo changed >/etc/passwd.new"
    assert_equal "$(cat "$file")" "$SECRET"
    [ ! -e /etc/passwd.new ]
    rm "$file"
}

@test "nothing that root does to the kernel shows on the host" {
    local before
    before=$(host_state)
    attempt root change_the_host msb-was-here
    assert_equal "$(host_state)" "$before"
    answers neighbour
}

@test "a neighbour's files, memory, keys and sockets are out of sight" {
    "$MSB" exec neighbour --user root --env "WORD=$SECRET" -- python3 - leave_secrets "$SECRET" \
        <"$BATS_TEST_DIRNAME/battery.py" >"$BATS_TEST_TMPDIR/left" 2>&1 3>&- &
    within 20 grep -q left "$BATS_TEST_TMPDIR/left"
    attempt user find_secrets "$SECRET"
    attempt root find_secrets "$SECRET"
    kill $!
    wait $! || true
}

@test "no socket of the host can be reached, and there are no wires" {
    local name=msb-battery-$$
    python3 -u -c '
import socket, sys, time
local = socket.socket(socket.AF_UNIX); local.bind("\0" + sys.argv[1]); local.listen()
net = socket.create_server(("127.0.0.1", 0))
print(net.getsockname()[1])
time.sleep(60)' "$name" >"$BATS_TEST_TMPDIR/port" 3>&- &
    local server=$!
    within 10 test -s "$BATS_TEST_TMPDIR/port"
    attempt user host_socket "$name" "$(cat "$BATS_TEST_TMPDIR/port")"
    attempt root host_socket "$name" "$(cat "$BATS_TEST_TMPDIR/port")"
    attempt user no_wires
    attempt root no_wires
    kill "$server"
}

@test "who is not root has nothing of the agent" {
    attempt user agent_as_user
    answers attacker
}

@test "output that looks like an end is output" {
    python3 "$BATS_TEST_DIRNAME/battery.py" look_like_an_end >"$BATS_TEST_TMPDIR/expected"
    attempt user look_like_an_end >"$BATS_TEST_TMPDIR/got"
    cmp "$BATS_TEST_TMPDIR/expected" "$BATS_TEST_TMPDIR/got"
}

@test "results for calls never made: code that writes to its own channel hurts nobody else" {
    local code='
import os
for fd in range(3, 64):
    try:
        os.write(fd, b"\xff" * 4096)
    except OSError:
        pass'
    msb exec attacker -c "$code" || true
    assert_equal "$(msb exec attacker -c '6*7')" 42
    code='
import os, struct
record = b"{\"type\": \"end\", \"exit_code\": 0}"
for fd in range(3, 64):
    try:
        os.write(fd, struct.pack("<I", len(record)) + record)
    except OSError:
        pass'
    msb exec attacker -c "$code" || true
    assert_equal "$(msb exec attacker -c '6*7')" 42
}

# The lie of that number, in a sandbox that has heard none that would keep it from being heard. What the
# liar says of it is in the file said: tell_lie NUMBER
tell_lie() {
    local said=$BATS_TEST_TMPDIR/said
    msb ps | grep -q '^liar ' || start_box liar >&2
    "$MSB" exec liar --user root -- python3 - lie "$1" <"$BATS_TEST_DIRNAME/battery.py" >"$said" 2>/dev/null 3>&- &
    local client=$!
    within 20 eval 'is_gone $client || grep -qa . "$said"'
    # With what it says from then on in pieces of a lie, an agent is not understood any more.
    within 3 is_gone $client || {
        kill -9 $client
        msb stop liar >&2
    }
    wait $client || true
}

@test "lies in the agent's name end its own sandbox at most" {
    local number
    for ((number = 0; number < 60; number++)); do
        tell_lie "$number"
        ! grep -qaE 'done|refused' "$BATS_TEST_TMPDIR/said" || break
        answers neighbour
    done
    assert_contains "$(tr -d '\0' <"$BATS_TEST_TMPDIR/said")" "$([ "$ENGINE" = vm ] && echo "done" || echo refused)"
    ! msb ps | grep -q '^liar ' || msb stop liar
    within 10 eval '[ ! -d "$(state_folder liar)" ]'
}

@test "sleepers that ignore every signal end with the timeout, double-forked ones too" {
    local code=0
    attack 3 deaf_sleepers
    wait $! || code=$?
    assert_equal "$code" 124
    within 10 eval '! msb exec attacker -- pgrep msb-sleeper'
    answers attacker
}

@test "the dead that nobody buries are buried with their parent" {
    attack 60 zombies
    local attack=$!
    within 60 grep -q full "$BATS_TEST_TMPDIR/attack"
    answers neighbour
    kill "$attack"
    wait "$attack" || true
    within 20 answers attacker
    run msb exec attacker -- sh -c 'ps -e -o stat= | grep -c "^Z"'
    assert_equal "$output" 0
}

@test "threads have an end" {
    attack 60 threads
    local attack=$!
    within 60 grep -q full "$BATS_TEST_TMPDIR/attack"
    answers neighbour
    kill "$attack"
    wait "$attack" || true
    within 20 answers attacker
}

@test "endless input that nobody reads is not kept" {
    local keeper before code=0
    keeper=$(status_of attacker keeper_pid)
    before=$(awk '/VmRSS/ {print $2}' "/proc/$keeper/status")
    timeout 20 "$MSB" exec attacker --timeout 3 -- sleep 100 < <(yes 2>/dev/null) || code=$?
    assert_equal "$code" 124
    [ "$(awk '/VmRSS/ {print $2}' "/proc/$keeper/status")" -lt $((before + 16384)) ]
    answers attacker
}

@test "endless output that nobody reads is not kept" {
    local keeper before
    keeper=$(status_of attacker keeper_pid)
    before=$(awk '/VmRSS/ {print $2}' "/proc/$keeper/status")
    "$MSB" exec attacker --timeout 4 -- yes </dev/null 3>&- | sleep 5 || true
    [ "$(awk '/VmRSS/ {print $2}' "/proc/$keeper/status")" -lt $((before + 16384)) ]
    answers attacker
}

@test "while one eats processes, memory and disk, the neighbour answers" {
    "$MSB" exec attacker --timeout 6 -- bash -c '
        (head -c 10G /dev/zero >/tmp/full) 2>/dev/null &
        (while :; do python3 -c "x = bytearray(4 << 30)"; done) 2>/dev/null &
        bomb() { bomb | bomb & }; bomb; sleep 100' </dev/null >/dev/null 2>&1 3>&- &
    local attack=$! i
    for i in 1 2 3 4 5; do
        answers neighbour
        assert_equal "$(msb exec neighbour -c "print($i)" </dev/null)" "$i"
    done
    wait "$attack" || true
    within 30 answers attacker
    msb exec attacker -- rm -f /tmp/full
}

@test "nothing is left" {
    msb stop --all
    assert_nothing_left
}
