#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2154 # variables meant inside; stderr is set by bats
# The files that sandboxes of projects keep between runs.
load helpers

setup() {
    rm -rf "$MSB_HOME/disks"
    [ "$ENGINE" = vm ] || needs_root
    mkdir "$BATS_TEST_TMPDIR/shop"
    cd "$BATS_TEST_TMPDIR/shop" || return 1
    cat >Sandboxfile <<'END'
sandboxes:
  box:
    image: python
    shell: sh
    scripts:
      save: echo "$1" >saved
      show: cat saved
END
}

teardown() {
    msb stop --all >&2
    rm -rf "$MSB_HOME/disks" "$MSB_HOME/logs"
}

has_printed() {
    [ "$(msb log box)" = once ]
}

kept_names() {
    msb kept --json | python3 -c 'import json, sys; print(*[box["name"] for box in json.load(sys.stdin)])'
}

@test "what one run writes the next one finds, however it is started" {
    msb run box~save -- first
    assert_equal "$(msb run box~show)" first
    msb up --detach
    assert_equal "$(msb run box~show)" first
    msb run box~save -- second
    msb down
    assert_equal "$(msb shell box -- -c 'cat saved')" second
    msb run box --detach --exec 'cat saved; exec sleep 100'
    assert_equal "$(msb run box~show)" second
    msb down
    assert_nothing_left
}

@test "what changes in the file keeps the files" {
    msb run box~save -- first
    msb up --detach
    sed -i 's/shell: sh/&\n    envs: [A=1]\n    command: [sleep, "100"]/' Sandboxfile
    msb apply --detach
    assert_equal "$(msb run box --exec 'cat saved; echo $A')" $'first\n1'
}

@test "--fresh throws them away, of what it starts" {
    msb run box~save -- old
    assert_equal "$(msb run box --fresh --exec 'ls')" ""
    msb run box~save -- old
    msb up --detach --fresh
    assert_equal "$(msb run box --exec 'ls')" ""
    msb run box~save -- new
    run --separate-stderr msb run box --fresh --exec ls
    assert_refused 1 "the sandbox box runs, and its files are in use"
    assert_contains "$stderr" "msb down box"
    assert_equal "$(msb up --detach --fresh)" "box runs already"
    assert_equal "$(msb apply --detach --fresh)" "nothing to do"
    assert_equal "$(msb run box~show)" new
    sed -i 's/shell: sh/&\n    envs: [A=1]/' Sandboxfile
    msb apply --detach --fresh
    assert_equal "$(msb run box --exec ls)" ""
}

@test "files that do not fit the image any more are not touched, nor is what runs" {
    msb run box~save -- old
    msb up --detach
    sed -i 's/image: python/image: node/' Sandboxfile
    run --separate-stderr msb apply --detach
    assert_refused 1 "Sandboxfile:2:3: the sandbox box: the files of sandbox box were kept over another image: microsandbox/python"
    assert_contains "$stderr" "--fresh"
    assert_equal "$(msb run box~show)" old
    msb down
    run --separate-stderr msb run box~show
    assert_refused 125 "Sandboxfile:2:3: the sandbox box: the files"
    assert_equal "$(msb run box --fresh --exec 'node -p 6*7')" 42
}

@test "interrupted over and over it ends once, and has written everything" {
    msb run box --exec 'echo kept >saved; echo ready; exec sleep 100' >out 2>&1 &
    local timeout_pid=$! run_pid
    within 30 grep -q ready out
    run_pid=$(pgrep -P "$timeout_pid" | head -1)
    run_pid=$(pgrep -P "$run_pid" || echo "$run_pid")
    for _ in 1 2 3 4 5 6; do
        kill -INT "$run_pid" 2>/dev/null || break
    done
    within 30 is_gone "$run_pid"
    assert_equal "$(msb run box~show)" kept
}

@test "one name is started once, by whichever comes first" {
    # It ends with the command that it was started for: mostly the first of the two.
    local code='echo "$$" >>starts; [ "$(wc -l <starts)" -gt 1 ] || sleep 3'
    msb run box --exec "$code" >one 2>&1 &
    local one=$!
    msb run box --exec "$code" >two 2>&1 &
    local failures=0 starts
    wait "$one" || failures=$((failures + 1))
    wait "$!" || failures=$((failures + 1))
    case "$failures $(cat one two)" in
    "0 ") starts=2 ;;                                                # the other one joined it
    "1 msb: a sandbox named box is running already"*) starts=1 ;;    # or heard that it runs
    "1 msb: the sandbox ended: it was stopped") starts=2 ;;          # or joined it and came first
    *) echo "$failures failed: $(cat one two)" && return 1 ;;
    esac
    assert_equal "$(msb run box --exec 'wc -l <starts')" "$starts"
    assert_nothing_left
}

@test "remove leaves the files, clean takes them, also of one that is gone from the file" {
    msb run box~save -- old
    run --separate-stderr msb remove box
    assert_equal "$output" box
    assert_contains "$stderr" '"msb clean box" removes them'
    assert_equal "$(kept_names)" box
    assert_contains "$(msb clean box)" "cleaned box: its log and"
    assert_equal "$(kept_names)" ""
    run --separate-stderr msb clean box
    assert_refused 1 'has no sandbox "box"'
    run --separate-stderr msb clean ../box
    assert_refused 1 '"../box" cannot be used'
    msb add box --image python
    msb run box --exec 'touch old'
    msb remove box
    assert_contains "$(msb clean --all)" "cleaned box"
    assert_equal "$(kept_names)" ""
}

@test "a copy keeps nothing, has a log of its own, and its command is not started again" {
    sed -i 's/shell: sh/&\n    command: [sh, -c, "echo once; exec sleep 100"]/' Sandboxfile
    msb up --detach
    within 10 has_printed
    local namespace
    namespace=$(msb status --json | python3 -c 'import json, sys; print(json.load(sys.stdin)[0]["namespace"])')
    msb run box~save -- kept
    msb fork --quiet box twin --namespace "$namespace"
    assert_equal "$(msb log box)" once
    assert_equal "$(msb exec twin --namespace "$namespace" -- cat saved)" kept
    local running
    running=$(msb exec twin --namespace "$namespace" -- sh -c 'grep -l sleep /proc/[0-9]*/comm 2>/dev/null | wc -l')
    case $ENGINE in
    vm) assert_equal "$running" 1 ;;
    jail) assert_equal "$running" 0 ;;
    esac
    assert_equal "$(kept_names)" box
}

@test "what is kept is listed and can be removed, but not while it is used" {
    msb exe python --keep --name alone -- touch file
    msb run box~save -- old
    assert_equal "$(kept_names)" "alone box"
    assert_contains "$(msb kept)" "NAME   NAMESPACE"
    local namespace
    namespace=$(msb status --json | python3 -c 'import json, sys; print(json.load(sys.stdin)[0]["namespace"])')
    assert_contains "$(msb kept --namespace "$namespace")" "box   $namespace  microsandbox/python  $ENGINE"
    assert_contains "$(msb status)" "box   stopped  -    -       1 MB"
    msb up --detach
    run --separate-stderr msb kept --remove box --namespace "$namespace"
    assert_refused 1 "the sandbox box runs"
    assert_contains "$stderr" "msb stop box --namespace $namespace"
    msb down
    run --separate-stderr msb kept --remove alone nobody
    assert_equal "$status" 1
    assert_equal "$output" alone
    assert_contains "$stderr" "no files are kept of a sandbox named nobody"
    msb kept --remove box --namespace "$namespace"
    assert_equal "$(msb kept --json)" "[]"
    assert_equal "$(ls "$MSB_HOME/disks")" ""
    run --separate-stderr msb kept --remove
    assert_refused 2 "which files"
    run --separate-stderr msb kept box
    assert_refused 2 "which files"
}
