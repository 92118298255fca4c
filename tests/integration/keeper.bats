#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2154 # variables meant inside; stderr is set by bats
# The life and death of sandboxes and their keepers.
load helpers

has_no_folder() {
    [ ! -e "$(state_folder "$1")" ]
}

@test "killing the keeper ends the machine, and the next msb sweeps" {
    start_box victim
    local keeper machine
    keeper=$(status_of victim keeper_pid)
    machine=$(status_of victim machine_pid)
    kill -9 "$keeper"
    within 5 is_gone "$machine"
    [ -d "$(state_folder victim)" ]
    run msb ps --json
    assert_equal "$output" "[]"
    has_no_folder victim
    assert_swept
}

@test "a name whose keeper was killed can be used again" {
    start_box victim
    local machine
    machine=$(status_of victim machine_pid)
    kill -9 "$(status_of victim keeper_pid)"
    within 5 is_gone "$machine"
    start_box victim
    run msb exec victim -- hostname
    assert_equal "$output" victim
    msb stop victim
}

@test "SIGTERM ends a keeper cleanly" {
    start_box victim
    local keeper machine
    keeper=$(status_of victim keeper_pid)
    machine=$(status_of victim machine_pid)
    kill "$keeper"
    within 5 is_gone "$keeper"
    is_gone "$machine"
    has_no_folder victim
}

@test "killing QEMU ends the sandbox and tells whoever waits" {
    start_box victim
    local machine
    machine=$(status_of victim machine_pid)
    msb exec victim -- sh -c 'echo ready; sleep 100' >"$BATS_TEST_TMPDIR/out" 2>"$BATS_TEST_TMPDIR/err" &
    local waiting=$!
    within 5 grep -q ready "$BATS_TEST_TMPDIR/out"
    kill -9 "$machine"
    local code=0
    wait "$waiting" || code=$?
    assert_equal "$code" 125
    assert_contains "$(cat "$BATS_TEST_TMPDIR/err")" "machine ended"
    within 5 has_no_folder victim
}

@test "killing an attached msb ends its sandbox" {
    "$MSB" exe python --name attached -- sh -c 'echo ready; sleep 100' >"$BATS_TEST_TMPDIR/out" 3>&- &
    local client=$!
    within 10 grep -q ready "$BATS_TEST_TMPDIR/out"
    local machine
    machine=$(status_of attached machine_pid)
    kill -9 "$client"
    within 5 is_gone "$machine"
    within 5 has_no_folder attached
}

@test "killing msb exec kills its command, not the sandbox" {
    start_box survivor
    "$MSB" exec survivor -- sh -c 'echo ready; sleep 1000' >"$BATS_TEST_TMPDIR/out" 3>&- &
    local client=$!
    within 10 grep -q ready "$BATS_TEST_TMPDIR/out"
    kill -9 "$client"
    no_sleep() { ! msb exec survivor -- pgrep -x sleep; }
    within 5 no_sleep
    msb stop survivor
}

@test "a name is used once" {
    start_box single
    msb exec single -c 'x = 1'
    run --separate-stderr start_box single
    assert_refused 125 "single is running already"
    assert_contains "$stderr" "msb stop single"
    run msb exec single -c 'x'
    assert_equal "$output" 1
    start_box single --namespace other
    run msb ps
    assert_contains "$output" other
    msb stop single
    run msb exec single --namespace other -- hostname
    assert_equal "$output" single
    msb stop --namespace other single
}

@test "many starts of one name: one wins" {
    local i won=0
    local -a jobs=()
    for i in 1 2 3 4; do
        start_box race 2>/dev/null &
        jobs+=("$!")
    done
    for i in "${jobs[@]}"; do
        wait "$i" && won=$((won + 1))
    done
    assert_equal "$won" 1
    msb exec race -- true
    msb stop race
}

@test "the idle time ends a sandbox that nobody uses" {
    # Used from the start for longer than that: however slow the host is, only idleness can end it.
    msb exe python --detach --name idler --idle 1 -- sleep 2 </dev/null
    within 10 has_no_folder idler
    assert_nothing_left
}

@test "the lifetime ends a sandbox at work" {
    run --separate-stderr msb exe python --lifetime 1 -- sleep 100
    assert_refused 125 "lifetime is over"
}

@test "stop ends at once, and knows what is not there" {
    start_box stopped
    local machine
    machine=$(status_of stopped machine_pid)
    run msb stop stopped
    assert_equal "$output" stopped
    has_no_folder stopped
    within 5 is_gone "$machine"
    run --separate-stderr msb stop stopped
    assert_refused 125 "no running sandbox named stopped"
    run --separate-stderr msb stop
    assert_refused 2 "which sandbox"
}

@test "what was stopped does nothing any more" {
    local folder=$BATS_TEST_TMPDIR/shared before
    mkdir -m 0777 "$folder"
    start_box busy -v "$folder:/data"
    msb exec busy --background -- sh -c 'while :; do echo x >>/data/log; done' >&2
    within 10 test -s "$folder/log"
    msb stop busy >&2
    before=$(stat -c %s "$folder/log")
    sleep 0.3
    assert_equal "$(stat -c %s "$folder/log")" "$before"
}

@test "stop --all ends everything" {
    start_box one
    start_box two
    msb stop --all
    run msb ps --json
    assert_equal "$output" "[]"
}

@test "a stopped keeper is killed by msb stop" {
    start_box frozen
    kill -STOP "$(status_of frozen keeper_pid)"
    run msb stop frozen
    assert_equal "$status" 0
    run msb ps --json
    assert_equal "$output" "[]"
}

@test "ps tells everything, as JSON too" {
    start_box shown --memory 1024 --env A=b
    run msb ps
    assert_contains "${lines[0]}" NAME
    assert_contains "${lines[1]}" shown
    assert_contains "${lines[1]}" "$ENGINE/$(status_of shown accelerator)"
    assert_equal "$(status_of shown image)" microsandbox/python
    assert_equal "$(status_of shown state)" running
    assert_equal "$(status_of shown memory_mb)" 1024
    msb stop shown
}

@test "only the owner can reach a sandbox" {
    start_box private
    assert_equal "$(stat -c '%F %a' "$(state_folder private)/keeper.sock")" "socket 600"
    assert_equal "$(stat -c %a "$(state_folder private)")" 700
    assert_equal "$(stat -c %a "$MSB_HOME/sandboxes")" 700
    msb stop private
}

@test "bytes that are no frames do not hurt a keeper" {
    start_box tough
    python3 - "$(state_folder tough)" <<'END'
import os, socket, sys
os.chdir(sys.argv[1])
header = lambda length, stream, kind, detail, zero=b"\0\0": (
    length.to_bytes(4, "little") + stream.to_bytes(4, "little") + bytes([kind, detail]) + zero)
for junk in (b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 4096, header(2**32 - 1, 1, 3, 0),
             header(0, 0, 2, 1), header(0, 5, 3, 1), header(0, 5, 4, 200), header(0, 1, 2, 250),
             header(3, 1, 2, 1) + b"\1\2\3", header(0, 1, 2, 1) * 3000, header(0, 7, 8, 0),
             header(100, 1, 2, 1), header(0, 1, 2, 64), header(0, 1, 1, 0)):
    peer = socket.socket(socket.AF_UNIX)
    peer.connect("keeper.sock")
    try:
        peer.sendall(junk)
        peer.shutdown(socket.SHUT_WR)
        peer.settimeout(5)
        while peer.recv(65536):
            pass
    except (ConnectionError, TimeoutError):
        pass
END
    # What the junk started is being cancelled.
    within 5 msb exec tough -- true
    msb stop tough
}

@test "the output log is kept and bounded" {
    start_box loud
    local folder
    folder=$(state_folder loud)
    msb exec loud -- echo first
    assert_equal "$(cat "$folder/output.log")" first
    msb exec loud -- head -c 20M /dev/zero >/dev/null
    msb exec loud -- echo last
    assert_equal "$(tail -c 5 "$folder/output.log")" last
    [ "$(stat -c %s "$folder/output.log")" -le 8388608 ]
    [ "$(stat -c %s "$folder/output.log.1")" -le 8388608 ]
    assert_equal "$(find "$folder" -name 'output.log*' | wc -l)" 2
    assert_equal "$(stat -c %a "$folder/output.log")" 600
    msb stop loud
}

@test "a paused machine does nothing and goes on where it was" {
    start_box pauses
    run python3 "$BATS_TEST_DIRNAME/pause.py" pauses
    assert_equal "$output" ok
    msb stop pauses
}

@test "Ctrl-C at any point of a start leaves nothing" {
    local delay client code
    for delay in 0.005 0.01 0.02 0.03 0.04 0.06 0.08 0.1 0.13 0.2; do
        env --default-signal=INT "$MSB" exe python -- sleep 100 </dev/null >/dev/null 2>&1 3>&- &
        client=$!
        sleep "$delay"
        kill -INT "$client"
        code=0
        within 10 is_gone "$client"
        wait "$client" || code=$?
        assert_equal "$code" 130
    done
    assert_nothing_left
}

@test "kill -9 at any point of a start leaves nothing but what ps sweeps" {
    local delay client
    for delay in 0.01 0.03 0.05 0.08 0.12; do
        "$MSB" exe python -- sleep 100 </dev/null >/dev/null 2>&1 3>&- &
        client=$!
        sleep "$delay"
        kill -9 "$client"
        wait "$client" || true
    done
    assert_swept
}

@test "nothing is left" {
    assert_nothing_left
}
