#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2154 # variables meant inside; stderr is set by bats
# Commands that go on without a client, in whole sandboxes. What each operation does is tried in
# test_agent_processes.py.
load helpers

setup() {
    start_box box
    export TERM=xterm
}

background() {
    msb exec box --background -- "$@" </dev/null
}

# One value of a command, by its key in the list: told_of PID KEY
told_of() {
    msb exec box --list --json | python3 -c '
import json, sys
print(*[one[sys.argv[2]] for one in json.load(sys.stdin) if one["pid"] == int(sys.argv[1])])' "$@"
}

has_clients() {
    [ "$(told_of "$1" clients)" = "$2" ]
}

on_terminal() {
    timeout 30 python3 "$BATS_TEST_DIRNAME/terminal.py" "$@"
}

@test "a command goes on in the background and is joined with its exit code" {
    pid=$(background sh -c 'echo before; echo wrong >&2; read -r line; echo "after $line"; exit 5')
    run --separate-stderr msb exec box --list
    assert_contains "$output" "$pid"
    assert_contains "$output" "running"
    run --separate-stderr msb exec box --attach "$pid" <<<"input"
    assert_equal "$status" 5
    assert_equal "$output" "before
after input"
    assert_equal "$stderr" "wrong"
    run --separate-stderr msb exec box --attach "$pid" </dev/null
    assert_equal "$status:${lines[1]}" "5:after input"
    assert_contains "$(msb exec box --list)" "exited with 5"
    msb stop box
    assert_nothing_left
}

@test "a client that is killed leaves a command to the next one" {
    pid=$(background sh -c 'echo begun; while read -r line; do echo "got $line"; done')
    "$MSB" exec box --attach "$pid" </dev/null >"$BATS_TEST_TMPDIR/one" &
    local watcher=$!
    within 10 grep -q begun "$BATS_TEST_TMPDIR/one"
    kill -9 "$watcher"
    wait "$watcher" || true
    within 10 has_clients "$pid" 0
    assert_equal "$(printf 'a\n' | msb exec box --attach "$pid")" "begun
got a"
    msb stop box
}

@test "a client that started a kept command and is gone leaves it running" {
    pid=$(timeout 30 python3 - "$MSB_HOME" "$BATS_TEST_DIRNAME" <<'PYTHON'
import sys
sys.path.insert(0, sys.argv[2])
from agent_harness import EVENT, EXEC, decode_fields
from keeper_client import Keeper
with Keeper(sys.argv[1], "box") as keeper:
    keeper.begin(EXEC, arg=["sh", "-c", "echo kept; read x; echo $x"], keep=1)
    plain = keeper.stream + 1
    while True:
        stream, kind, _, payload = keeper.frame()
        if kind == EVENT:
            print(decode_fields(payload)["pid"])
            break
    keeper.begin(EXEC, arg=["sleep", "1000"])
    while (found := keeper.frame())[:2] != (plain, EVENT):
        pass
PYTHON
)
    within 10 has_clients "$pid" 0
    run ! grep -q 'sleep 1000' <<<"$(msb exec box -T -- ps -e -o args=)"
    assert_equal "$(msb exec box --attach "$pid" <<<"live")" "kept
live"
    msb stop box
}

@test "a reader that goes away leaves the command running" {
    pid=$(background sh -c 'while echo line; do sleep 0.01; done')
    assert_equal "$(msb exec box --attach "$pid" </dev/null | head -n 1)" "line"
    assert_equal "$(told_of "$pid" state)" "running"
    msb exec box -- kill "$pid"
    run -143 msb exec box --attach "$pid" </dev/null
    msb stop box
}

@test "two at once see the same" {
    pid=$(background sh -c 'read -r line; seq 1000; exit 2')
    "$MSB" exec box --attach "$pid" </dev/null >"$BATS_TEST_TMPDIR/one" &
    local watcher=$!
    within 10 has_clients "$pid" 1
    run -2 --separate-stderr msb exec box --attach "$pid" <<<"go"
    assert_equal "$output" "$(seq 1000)"
    wait "$watcher" || assert_equal $? 2
    assert_equal "$(cat "$BATS_TEST_TMPDIR/one")" "$output"
    msb stop box
}

@test "a terminal is left with Ctrl-P Ctrl-Q and joined again at another size" {
    pid=$(on_terminal -- "$MSB" exec box --background -- sh | tr -d '\r')
    assert_equal "$(told_of "$pid" terminal) $(told_of "$pid" rows) $(told_of "$pid" cols)" "True 40 100"
    run on_terminal --when '$' --type 'x=4; stty size; echo $((x+1))5\n' --when 55 --type '\x10\x11' \
        -- "$MSB" exec box --attach "$pid"
    assert_equal "$status" 0
    assert_contains "$output" "40 100"
    assert_contains "$output" "The command goes on."
    run on_terminal --when 55 --resize 33x77 --when '$' --type 'stty size\n' --when '33 77' \
        --type 'exit $((x+2))\n' -- "$MSB" exec box --attach "$pid"
    assert_equal "$status" 6
    assert_contains "$output" "40 100"
    msb stop box
}

@test "what makes no sense is refused" {
    run --separate-stderr msb exec box --attach 99999
    assert_refused 125 "99999"
    run -127 --separate-stderr msb exec box --background -- /no/such
    assert_refused 127 "/no/such"
    run --separate-stderr msb exec box --background -c 'print(1)'
    assert_refused 2 "--background"
    run --separate-stderr msb exec box --attach 5 -- true
    assert_refused 2 "--attach"
    run --separate-stderr msb exec box --json --attach 5
    assert_refused 2 "--list"
    msb stop box
}
