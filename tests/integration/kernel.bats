#!/usr/bin/env bats
# shellcheck disable=SC2154 # stderr is set by bats
# The kernel inside: which one is used, and what is said when it crashes.
load helpers

setup() {
    needs_machine
}

teardown() {
    msb stop --all >&2
}

# Of the sandbox NAME: crash NAME
crash() {
    msb exec "$1" -- sudo sh -c 'echo c >/proc/sysrq-trigger; sleep 60' </dev/null
}

@test "a kernel that crashes ends its machine at once, and is named with its last words" {
    local release
    start_box crash-box
    release=$(msb exec crash-box -- uname -r </dev/null)
    run --separate-stderr crash crash-box
    assert_refused 125 "Linux $release, crashed: Kernel panic - not syncing: sysrq triggered crash"
    assert_equal "$(status_of crash-box state)" ""
    assert_nothing_left
}

@test "so is it told to whoever else waits" {
    local waiting
    start_box crash-box
    msb exec crash-box -- sleep 100 </dev/null 2>"$BATS_TEST_TMPDIR/said" &
    waiting=$!
    within 20 eval 'msb exec crash-box -- pgrep -x sleep </dev/null >/dev/null'
    run crash crash-box
    run wait "$waiting"
    assert_contains "$(<"$BATS_TEST_TMPDIR/said")" "crashed: Kernel panic"
}

@test "a mistake of the kernel is the end of it too: nobody waits for what is stuck" {
    start_box crash-box
    run --separate-stderr msb exec crash-box -- sudo sh -c 'cat /proc/cmdline' </dev/null
    assert_contains "$output" "oops=panic"
    assert_equal "$(msb exec crash-box -- cat /proc/sys/kernel/panic_on_oops </dev/null)" 1
}

@test "what is written to the console is read, without end and without harm" {
    start_box crash-box
    run msb exec crash-box --timeout 60 -- sudo sh -c \
        'yes "Kernel panic: not at all" | head -c 300000 >/dev/console; echo written' </dev/null
    assert_equal "$output" written
    assert_equal "$(msb exec crash-box -c '6*7' </dev/null)" 42
}

@test "a kernel that fails its trial is not used: the one before is, and doctor says so" {
    local home=$BATS_TEST_TMPDIR/home kernel
    kernel=$(msb doctor --json | python3 -c '
import json, sys
print(*[c["detail"] for c in json.load(sys.stdin)["checks"] if c["check"] == "kernel"])')
    mkdir "$home"
    cp -al "$MSB_HOME/images" "$MSB_HOME/kernels" "$MSB_HOME/templates" "$home"
    # One without its modules, which finds no disk.
    mkdir -p "$home/kernels/99.9-amd64/modules"
    cp -al "$home/kernels/$kernel/vmlinux" "$home/kernels/99.9-amd64"
    touch "$home/kernels/99.9-amd64/modules/order"

    run --separate-stderr env MSB_HOME="$home" timeout 300 "$MSB" prepare python
    assert_equal "$status" 0
    assert_contains "$stderr" "Trying the kernel 99.9-amd64: failed"
    assert_contains "$stderr" "the kernel 99.9-amd64 is not used"
    assert_equal "$(MSB_HOME=$home msb exe python -- uname -r </dev/null)" "$kernel"
    assert_contains "$(MSB_HOME=$home msb doctor)" "99.9-amd64: "
    # It is not tried again.
    run --separate-stderr env MSB_HOME="$home" timeout 300 "$MSB" prepare python
    [[ $stderr != *Trying* ]]
}
