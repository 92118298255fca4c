#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2154 # variables meant inside; stderr is set by bats
# Copies of running sandboxes, and sandboxes that stand still.
load helpers

# What makes a copy another sandbox than its original.
SELF='import random, os, uuid, socket; print(random.random(), os.urandom(8).hex(), uuid.uuid4(), socket.gethostname(), open("/etc/machine-id").read())'

run_in() {
    msb exec "$1" -c "$2" </dev/null
}

# fork_box NAME NEW: quietly, whatever the engine does not copy.
fork_box() {
    msb fork --quiet "$1" "$2"
}

@test "what is written in one is not seen in the other" {
    start_box first
    run_in first 'open("/tmp/before", "w").write("both")'
    assert_equal "$(fork_box first second)" second
    run_in first 'open("/tmp/after", "w").write("first")'
    run_in second 'open("/tmp/after", "w").write("second")'
    assert_equal "$(msb exec first -- cat /tmp/before /tmp/after)" bothfirst
    assert_equal "$(msb exec second -- cat /tmp/before /tmp/after)" bothsecond
    assert_equal "$(msb exec second -- hostname)" second
    msb stop first second
    assert_nothing_left
}

@test "a machine's variables live on in both, and part there" {
    needs_machine
    start_box first
    run_in first 'import numpy; x = [1]; a = numpy.arange(3)'
    fork_box first second
    fork_box second third
    run_in first 'x.append(2)'
    run_in third 'x.append(3)'
    assert_equal "$(run_in first 'print(x, a.sum())')" "[1, 2] 3"
    assert_equal "$(run_in second 'print(x, a.sum())')" "[1] 3"
    assert_equal "$(run_in third 'print(x, a.sum())')" "[1, 3] 3"
    msb stop first second third
    assert_nothing_left
}

@test "no two copies have the same random numbers, names or time" {
    start_box first
    run_in first 'import random, numpy; random.seed(1); numpy.random.seed(1)'
    fork_box first second
    fork_box first third
    local all
    all=$(for box in first second third; do
        run_in $box "$SELF"
        run_in $box 'import numpy; print(numpy.random.rand())'
        msb exec $box -- openssl rand -hex 8
    done | tr ' ' '\n')
    assert_equal "$(sort <<<"$all" | uniq --repeated | sed '/^$/d')" ""
    local there here
    there=$(run_in third 'import time; print(int(time.time()))')
    here=$(date +%s)
    [ $((here - there)) -le 5 ]
    msb stop first second third
}

@test "code that runs goes on in both" {
    needs_machine
    start_box first
    msb exec first -c 'import time
for i in range(60):
    time.sleep(0.05)
    n = i
print("end", n)' >"$BATS_TEST_TMPDIR/out" &
    local waiting=$!
    sleep 0.5
    fork_box first second
    wait "$waiting"
    assert_equal "$(cat "$BATS_TEST_TMPDIR/out")" "end 59"
    assert_equal "$(run_in second 'print(n)')" 59
    assert_equal "$(run_in first 'print(n)')" 59
    msb stop first second
}

@test "a command goes on in both, and in the copy its stdin ends" {
    needs_machine
    start_box first
    mkfifo "$BATS_TEST_TMPDIR/in"
    "$MSB" exec first -- sh -c 'cat >/tmp/in; echo over >>/tmp/in; sleep 1000' <"$BATS_TEST_TMPDIR/in" 3>&- &
    local waiting=$!
    exec 5>"$BATS_TEST_TMPDIR/in"
    echo early >&5
    within 10 msb exec first -- grep -q early /tmp/in
    fork_box first second
    within 10 msb exec second -- grep -q over /tmp/in
    assert_equal "$(msb exec first -- cat /tmp/in)" early
    echo late >&5
    exec 5>&-
    within 10 msb exec first -- grep -q over /tmp/in
    assert_equal "$(msb exec first -- cat /tmp/in | tr '\n' ' ')" "early late over "
    assert_equal "$(msb exec second -- cat /tmp/in | tr '\n' ' ')" "early over "
    assert_contains "$(msb exec second -- ps ax 2>/dev/null || msb exec second -- sh -c 'cat /proc/[0-9]*/cmdline' | tr '\0' ' ')" "sleep 1000"
    kill "$waiting"
    wait "$waiting" || true
    msb stop first second
}

@test "output under way is neither lost nor doubled" {
    start_box first
    msb exec first -- sh -c 'i=0; while [ $i -lt 30000 ]; do echo line $i; i=$((i+1)); done' >"$BATS_TEST_TMPDIR/out" &
    local waiting=$!
    for copy in a b c; do
        fork_box first "$copy"
        assert_equal "$(msb exec "$copy" -- echo works)" works
    done
    wait "$waiting"
    assert_equal "$(md5sum <"$BATS_TEST_TMPDIR/out")" "$(seq 0 29999 | sed 's/^/line /' | md5sum)"
    msb stop first a b c
}

@test "many copies at once" {
    start_box first
    run_in first 'n = open("file", "w").write("kept")'
    local copying=()
    for copy in a b c d; do
        fork_box first "$copy" >&2 &
        copying+=($!)
    done
    for fork in "${copying[@]}"; do
        wait "$fork"
    done
    for copy in a b c d; do
        assert_equal "$(msb exec "$copy" -- cat file)" kept
    done
    assert_equal "$(msb exec first -- echo fine)" fine
    msb stop first a b c d
    assert_nothing_left
}

@test "the settings go with the copy, but not the ports" {
    start_box first --env COLOUR=blue --memory 512 --cpus 2 --network example.com --port 0:8000
    fork_box first second
    assert_equal "$(msb exec second -- sh -c 'echo $COLOUR')" blue
    assert_equal "$(status_of second memory_mb)" 512
    assert_equal "$(status_of second egress)" "['example.com']"
    assert_equal "$(status_of second ports)" "[]"
    run msb exec second -- curl --silent --max-time 10 --output /dev/null --write-out '%{http_code}' http://other.example/
    assert_equal "$output" 403
    msb stop first second
}

@test "of a jail only the files are copied, and that is said" {
    [ "$ENGINE" = jail ] || skip "needs a jail"
    start_box first
    run_in first 'x = 1; n = open("kept", "w").write("kept")'
    msb exec first -- sh -c 'ln kept link; truncate -s 1G sparse'
    msb exec first --user root -- sh -c 'rm -r /usr/share/doc; mkdir /usr/share/doc'
    run --separate-stderr msb fork first second
    assert_equal "$output" second
    assert_contains "$stderr" "cannot copy memory"
    run msb exec second -c 'print(x)'
    assert_contains "$output" NameError
    assert_equal "$(run_in first 'print(x)')" 1
    assert_equal "$(msb exec second -- sh -c 'ls /usr/share/doc; cat link; stat -c "%h %U" link; stat -c %s sparse')" $'kept2 user\n1073741824'
    msb stop first second
}

@test "a paused sandbox is not copied, and goes on with the right time" {
    start_box first
    assert_equal "$(msb pause first)" first
    assert_equal "$(status_of first state)" paused
    run --separate-stderr msb fork first second
    assert_refused 125 "is paused"
    run --separate-stderr msb exec first -- true
    assert_refused 125 "is paused"
    sleep 1
    assert_equal "$(msb resume first)" first
    assert_equal "$(status_of first state)" running
    local there
    there=$(run_in first 'import time; print(int(time.time() * 10))')
    [ $((($(date +%s%N) / 100000000) - there)) -lt 10 ]
    fork_box first second
    msb stop first second
    assert_nothing_left
}

@test "names that are wrong, taken or unknown" {
    start_box first
    run --separate-stderr msb fork first first
    assert_refused 125 "running already"
    run --separate-stderr msb fork nobody second
    assert_refused 125 "no running sandbox named nobody"
    run --separate-stderr msb fork first ../second
    assert_refused 125 "cannot be used"
    run --separate-stderr msb fork ../first second
    assert_refused 125 "cannot be used"
    run --separate-stderr msb fork first
    assert_refused 2 "takes the sandbox and a name"
    run --separate-stderr msb fork --namespace other first second
    assert_refused 125 "no running sandbox named first"
    run --separate-stderr msb pause nobody
    assert_refused 125 "no running sandbox named nobody"
    run --separate-stderr msb resume
    assert_refused 2 "which sandbox"
    assert_equal "$(msb exec first -- echo fine)" fine
    msb stop first
    assert_nothing_left
}

@test "both have the shared folders" {
    mkdir "$BATS_TEST_TMPDIR/shared"
    echo one >"$BATS_TEST_TMPDIR/shared/file"
    start_box first --volume "$BATS_TEST_TMPDIR/shared:/shared"
    assert_equal "$(msb exec first -- cat /shared/file)" one
    fork_box first second
    echo two >"$BATS_TEST_TMPDIR/shared/file"
    for box in first second; do
        assert_equal "$(msb exec $box -- cat /shared/file)" two
        msb exec $box -- sh -c "echo $box >/shared/$box"
        assert_equal "$(cat "$BATS_TEST_TMPDIR/shared/$box")" $box
    done
    msb stop first second
    assert_nothing_left
}

@test "a machine that has a shared file open is not copied" {
    needs_machine
    start_box first --volume "$BATS_TEST_TMPDIR:/shared"
    msb exec first -c 'f = open("/shared/open", "w")'
    run --separate-stderr msb fork first second
    assert_refused 125 "shared folder"
    msb exec first -c 'f.write("fine"); f.close()'
    assert_equal "$(cat "$BATS_TEST_TMPDIR/open")" fine
    fork_box first second
    msb stop first second
    assert_nothing_left
}

# The original is stopped, so that its copy waits for it.
@test "a keeper that is killed while it copies leaves nothing" {
    start_box first
    local keeper
    keeper=$(status_of first keeper_pid)
    for victim in second first; do
        kill -STOP "$keeper"
        msb fork --quiet first second 2>"$BATS_TEST_TMPDIR/err" &
        local waiting=$! code=0
        within 10 test -e "$(state_folder second)/origin"
        kill -9 "$(processes_of_home | awk -v title="msb keeper $victim " '$0 ~ title {print $1; exit}')"
        wait "$waiting" || code=$?
        assert_equal "$code" 125
        kill -CONT "$keeper" 2>/dev/null || true
        [ "$victim" = first ] || assert_equal "$(msb exec first -- echo fine)" fine
    done
    assert_swept
}

@test "whoever forks may change their mind" {
    start_box first
    local keeper waiting
    keeper=$(status_of first keeper_pid)
    kill -STOP "$keeper"
    "$MSB" fork --quiet first second &
    waiting=$!
    within 10 test -e "$(state_folder second)/origin"
    kill -INT "$waiting" || true
    kill -TERM "$waiting" || true
    within 10 test ! -e "$(state_folder second)"
    kill -CONT "$keeper"
    assert_equal "$(msb exec first -- echo fine)" fine
    fork_box first second
    msb stop first second
    assert_nothing_left
}

@test "snapshots are made, listed, started and removed" {
    start_box first
    run_in first 'x = 7; open("/tmp/file", "w").write("kept")'
    assert_equal "$(msb snapshot first --as shot)" shot
    run --separate-stderr msb snapshot first --as shot
    assert_refused 125 "a snapshot named shot already"
    msb stop first
    assert_equal "$(msb snapshots --json | python3 -c 'import json, sys
for s in json.load(sys.stdin): print(s["name"], s["sandbox"], s["image"], s["engine"], s["bytes"] > 0)')" \
        "shot first microsandbox/python $ENGINE True"
    assert_contains "$(msb snapshots)" "shot"
    msb restore --quiet shot
    msb restore --quiet shot again
    for box in shot again; do
        assert_equal "$(msb exec $box -- cat /tmp/file)" kept
        [ "$ENGINE" = jail ] || assert_equal "$(run_in $box 'print(x)')" 7
        run_in $box 'open("/tmp/file", "w").write("changed")'
    done
    [ "$(run_in shot "$SELF")" != "$(run_in again "$SELF")" ]
    msb stop shot again
    assert_equal "$(msb snapshot --remove shot)" shot
    run --separate-stderr msb restore shot
    assert_refused 125 "no snapshot named shot"
    run --separate-stderr msb snapshot --remove shot
    assert_refused 125 "no snapshot named shot"
    run --separate-stderr msb snapshot nobody
    assert_refused 125 "no running sandbox named nobody"
    assert_equal "$(msb snapshots --json)" "[]"
    assert_nothing_left
}

@test "a snapshot outlives its template, and one that does not fit is refused" {
    needs_machine
    # The size of busy.bats, which builds that template anew.
    msb exe python --memory 640 --detach --name first -c 'x = 8' </dev/null
    msb snapshot first
    msb stop first
    drop_templates 640
    msb restore first
    assert_equal "$(run_in first 'print(x)')" 8
    msb stop first
    sed -i 's/"key": "./"key": "-/' "$MSB_HOME/snapshots/default/first/machine.json"
    run --separate-stderr msb restore first
    assert_refused 125 "does not fit this host"
    msb snapshot --remove first
    assert_nothing_left
}
