#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2030,SC2031,SC2154 # variables meant inside; stderr is set by bats
# Every limit is hit for real, in a machine that is small so that it is quick. The sandbox has to
# answer afterwards.

load helpers

HOG='
pieces = []
while True:
    pieces.append(bytearray(1 << 20))'

# One template for all tests here.
SMALL=(--memory 256 --disk 128 --files 2000)

setup_file() {
    msb stop --all >&2
    start_box box "${SMALL[@]}" --processes 200 --open-files 300 >&2
}

# The box is for all tests, also when one has failed.
teardown() {
    :
}

# A client of the keeper of NAME that runs CODE with it, as `keeper`: on_wire NAME CODE
on_wire() {
    PYTHONPATH=$BATS_TEST_DIRNAME python3 - "$MSB_HOME" "$@" <<'END'
import sys
from keeper_client import PAUSE, RESUME, Keeper
with Keeper(sys.argv[1], sys.argv[2]) as keeper:
    exec(sys.argv[3])
END
}

in_box() {
    msb exec box "$@" </dev/null
}

# A figure of the sandbox, seen from inside: inside KEY
inside() {
    msb metrics box --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["inside"][sys.argv[1]])' "$1"
}

still_works() {
    assert_equal "$(in_box -- echo alive)" alive && assert_equal "$(in_box -c '6*7')" 42
}

@test "a command that eats all memory is killed, named, and has a verdict of its own" {
    run --separate-stderr in_box -- python3 -c "$HOG"
    assert_equal "$status" 137
    assert_contains "$stderr" "python3 was killed: the sandbox had no memory left"
    assert_contains "$stderr" "--memory"
    still_works
}

@test "so is code; its variables are gone" {
    in_box -c 'x = 1'
    run --separate-stderr in_box -c "$HOG"
    assert_equal "$status" 137
    assert_contains "$stderr" "python3 was killed"
    run --separate-stderr in_box -c 'x'
    assert_contains "$stderr" NameError
    still_works
}

@test "over the wire the verdict is memory, with the state lost" {
    run on_wire box "
end = keeper.run('''$HOG''')[1]
print(end['verdict'], end['killed'], end['state_lost'])"
    assert_equal "$output" "memory python3 1"
    still_works
}

@test "a process of a command that is killed is named too, and the command goes on" {
    local before name
    before=$(inside memory_kills)
    run --separate-stderr in_box -- sh -c "python3 -c '$HOG'; echo it said \$?"
    assert_equal "$status" 0
    assert_equal "$output" "it said 137"
    # Only the log of a machine's own kernel knows the name of a process that its parent has reaped.
    [ "$ENGINE" = vm ] && name=python3 || name="a process"
    assert_contains "$stderr" "$name was killed"
    assert_equal "$(inside memory_kills)" $((before + 1))
    still_works
}

@test "it is named also when its parent buries it before the agent can look" {
    needs_machine
    # Before all others there is no processor time for the agent until the command has ended.
    run --separate-stderr in_box --user root -- chrt --fifo 50 sh -c "python3 -c '$HOG'; echo it said \$?"
    assert_equal "$output" "it said 137"
    assert_contains "$stderr" "python3 was killed"
}

@test "memory that is asked for at once and is not there is refused, not fatal" {
    needs_machine
    run --separate-stderr in_box -c 'bytearray(1 << 30)'
    assert_equal "$status" 1
    assert_contains "$stderr" MemoryError
    still_works
}

@test "files in memory have an end before memory has" {
    run in_box -- sh -c 'head -c 250M /dev/zero >/dev/shm/full; echo $?; rm /dev/shm/full'
    assert_contains "$output" "No space left on device"
    assert_equal "${lines[-1]}" 1
    still_works
}

@test "a fork bomb stays in its bounds and ends with its command" {
    "$MSB" exec box --timeout 15 -- bash -c 'bomb() { bomb | bomb & }; bomb; sleep 1000' \
        </dev/null >/dev/null 2>&1 3>&- &
    local bomb=$! code=0
    within 15 eval '[ "$(inside processes)" -gt 150 ]'
    [ "$(inside processes)" -le 200 ]
    wait "$bomb" || code=$?
    assert_equal "$code" 124
    within 20 eval '[ "$(inside processes)" -lt 20 ]'
    still_works
}

@test "while all processes are taken the sandbox says so, and still answers" {
    "$MSB" exec box -- python3 -c '
import os, time
try:
    while True:
        if os.fork() == 0:
            time.sleep(1000)
except BlockingIOError:
    print("full", flush=True)
    time.sleep(1000)' </dev/null >"$BATS_TEST_TMPDIR/out" 3>&- &
    local full=$!
    within 20 grep -q full "$BATS_TEST_TMPDIR/out"
    assert_equal "$(inside processes)" 200
    run --separate-stderr in_box -- true
    assert_equal "$status" 126
    assert_contains "$stderr" "as many processes as it may"
    kill "$full"
    wait "$full" || true
    within 20 in_box -- true
    still_works
}

@test "too many open files are refused" {
    run in_box -c '
files = []
try:
    while True:
        files.append(open("/dev/null"))
except OSError as error:
    print(error.strerror, 250 < len(files) < 300)
files = []'
    assert_equal "$output" "Too many open files True"
    assert_equal "$(in_box -- sh -c 'ulimit -n')" 300
    still_works
}

@test "a full disk is said to be full, and works again when there is room" {
    run in_box -- sh -c 'head -c 200M /dev/zero >full; echo $?'
    assert_contains "$output" "No space left on device"
    [ $(($(inside disk_used) * 100)) -gt $(($(inside disk_total) * 95)) ]
    assert_equal "$(in_box -c '6*7')" 42
    run --separate-stderr in_box -c 'open("more", "w").write("x" * 100000)'
    assert_contains "$stderr" "No space left on device"
    in_box -- rm full
    in_box -c 'n = open("more", "w").write("x" * 100000)'
    still_works
}

@test "there are only so many files" {
    run in_box -- sh -c 'mkdir many; i=0; while echo >many/$i; do i=$((i+1)); done; echo $i'
    assert_contains "$output" "No space left on device"
    [ "${lines[-1]}" -gt 1000 ]
    [ "${lines[-1]}" -lt 2100 ]
    assert_equal "$(inside files_used)" "$(inside files_total)"
    in_box -- rm -r many
    still_works
}

@test "output beyond the limit is counted and thrown away" {
    run --separate-stderr in_box --output-limit 10 -- seq 100000
    assert_equal "$status" 0
    assert_equal "$output" $'1\n2\n3\n4\n5'
    assert_equal "$stderr" "msb: output cut: 10 of 588895 bytes shown (--output-limit)"
    run --separate-stderr in_box --output-limit 3 -c 'print("abcdef")'
    assert_equal "$output" abc
    assert_contains "$stderr" "3 of 7 bytes"
}

@test "without a limit everything comes through, however much" {
    assert_equal "$(in_box -- head -c 80M /dev/zero | wc -c)" $((80 << 20))
}

@test "clients that say nothing get the sandbox's limit" {
    start_box cut "${SMALL[@]}" --output-limit 5
    run on_wire cut "
output, end = keeper.run('print(1000 * 120)\\nprint(1000)')
print(output[1], end['output_bytes'], end['verdict'])"
    assert_equal "$output" "b'12000' 12 exited"
    msb stop cut
}

@test "the host gives a machine no more processor time than its limit" {
    needs_root
    local group
    start_box slow "${SMALL[@]}" --cpu-limit 30
    for group in /sys/fs/cgroup/{cpu,.}/msb/"$(status_of slow keeper_pid)" ""; do
        [ -z "$group" ] || [ ! -e "$group/cpu.stat" ] || break
    done
    [ -n "$group" ] || skip "no control groups for processor time"
    within 5 grep -q "$(status_of slow machine_pid)" "$group/cgroup.procs"
    "$MSB" exec slow -- sh -c 'while :; do :; done' </dev/null >/dev/null 2>&1 3>&- &
    is_throttled() { [ "$(awk '/nr_throttled/ {print $2}' "$group/cpu.stat")" -gt 0 ]; }
    within 60 is_throttled
    msb stop slow
    wait $! || true
}

@test "metrics are a table, and JSON for programs" {
    run msb metrics box
    assert_equal "$status" 0
    assert_contains "$output" "WHAT"
    assert_contains "$output" "killed for memory"
    msb metrics box --json | python3 -c '
import json, sys
told = json.load(sys.stdin)
assert told["cpu_us"] > 100000 and told["cpu_percent"] >= 0 and told["uptime_us"] > 0, told
assert told["host_memory"] > 1 << 20, told
assert (told["processes"], told["open_files"], told["files"], told["memory_mb"]) == (200, 300, 2000, 256), told
inside = told["inside"]
assert 0 < inside["memory_used"] < inside["memory_total"] <= 256 << 20, inside
assert 0 < inside["disk_used"] < inside["disk_total"] <= 128 << 20, inside
assert inside["cpu_us"] > 0 and 0 < inside["processes"] <= 200, inside'
    msb ps --json | python3 -c 'import json, sys; assert json.load(sys.stdin)[0]["inside"]["memory_total"] > 0'
}

@test "a paused sandbox tells what it costs the host" {
    on_wire box 'keeper.ask(PAUSE)'
    run msb metrics box --json
    on_wire box 'keeper.ask(RESUME)'
    assert_equal "$status" 0
    assert_contains "$output" '"host_memory"'
    [[ $output != *'"inside"'* ]]
    still_works
}

@test "limits that are not possible are refused by name" {
    local option
    for option in processes=1 processes=99999 open-files=1 files=1 files=9999999 cpu-limit=1 \
        output-limit=x output-limit=-1; do
        run --separate-stderr msb exe python "--$option" -- true
        assert_equal "$status" 2
        assert_contains "${stderr//_/-}" "${option%%=*}"
    done
}
