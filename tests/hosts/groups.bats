#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2154 # variables meant inside; stderr is set by bats
# Control groups of version 2 alone, under systemd: where they lie, and that each limit holds. Runs in a test
# host, as root and as a user who has logged in; see check-kvm.

load ../integration/helpers

TOP=/sys/fs/cgroup

HOG='
pieces = []
while True:
    pieces.append(bytearray(1 << 20))'

setup_file() {
    [ -e "$TOP/cgroup.controllers" ] || skip "version 2 alone is needed"
    msb prepare python >&2
    msb stop --all >&2
}

teardown() {
    [ -n "$BATS_TEST_COMPLETED" ] || msb stop --all >&2
    systemctl stop msb-test.service >/dev/null 2>&1 || true
    rm -f /run/systemd/system/msb-test.service 2>/dev/null || true
}

# In a unit that is its own to divide: delegated COMMAND…
delegated() {
    local whose=--user
    [ "$(id -u)" -ne 0 ] || whose=--system
    timeout 180 systemd-run "$whose" --scope --quiet --unit="msb-test-$RANDOM" -p Delegate=yes "$@"
}

# The group of a process: group_of PID
group_of() {
    sed -n "s,^0::,$TOP,p" "/proc/$1/cgroup"
}

# The group that msb made for a sandbox: box_group NAME
box_group() {
    local keeper group
    keeper=$(status_of "$1" keeper_pid)
    group=$(group_of "$(status_of "$1" machine_pid)")
    assert_contains "$group/" "/msb/$keeper/" && echo "${group%%"/msb/$keeper"*}/msb/$keeper"
}

# A number of a file of a group: count_in GROUP FILE KEY
count_in() {
    awk -v key="$3" '$1 == key {print $2}' "$1/$2"
}

# What all sandboxes have, whatever isolates them: caps_hold NAME MEGABYTES PROCESSES
caps_hold() {
    local group
    group=$(box_group "$1")
    [ "$(<"$group/memory.max")" -ge $(($2 << 20)) ] && [ "$(<"$group/memory.max")" -le $((($2 + 400) << 20)) ]
    assert_equal "$(<"$group/memory.swap.max")" 0
    assert_equal "$(<"$group/pids.max")" "$3"
}

# start_box is run with its options by COMMAND…: start_in "COMMAND" NAME [OPTIONS…]
start_in() {
    # shellcheck disable=SC2086 # a command of several words, or none
    $1 "$MSB" exe python --detach --name "${@:2}" -- true </dev/null
}

# A loop in a sandbox that may use 30 % of a processor is held back: cpu_limit_holds NAME
cpu_limit_holds() {
    local group
    group=$(box_group "$1")
    assert_equal "$(<"$group/cpu.max")" "30000 100000"
    msb exec "$1" --timeout 5 -- sh -c 'while :; do :; done' </dev/null || true
    [ "$(count_in "$group" cpu.stat nr_throttled)" -gt 0 ]
}

# QEMU's memory is bounded by its group, and its end is the end of the sandbox: machine_dies_alone NAME
machine_dies_alone() {
    local group machine
    group=$(box_group "$1")
    machine=$(status_of "$1" machine_pid)
    echo $(($(count_in "$group" memory.stat anon) / 2)) >"$group/memory.max"
    within 10 is_gone "$machine"
    within 10 test ! -e "$group"
    within 10 nothing_left
}

# All limits of a jail are hit for real: jail_limits_hold COMMAND
jail_limits_hold() {
    local group
    start_in "$1" slow --engine jail --cpu-limit 30
    cpu_limit_holds slow
    msb stop slow
    start_in "$1" wall --engine jail --memory 256 --processes 20
    group=$(box_group wall)
    caps_hold wall 256 "$(<"$group/pids.max")"
    run --separate-stderr msb exec wall -- python3 -c "$HOG"
    assert_equal "$status" 137
    assert_contains "$stderr" "no memory left"
    [ "$(count_in "$group" memory.events oom_kill)" -gt 0 ]
    run msb exec wall -- bash -c 'for i in $(seq 40); do sleep 30 & done 2>&1; jobs -r | wc -l'
    assert_contains "$output" "Resource temporarily unavailable"
    assert_equal "$(msb exec wall -- echo alive)" alive
    msb pause wall
    grep -q "frozen 1" "$group/cgroup.events"
    msb resume wall
    grep -q "frozen 0" "$group/cgroup.events"
    assert_equal "$(msb exec wall -- echo alive)" alive
    msb stop wall
    within 10 test ! -e "$group"
}

# The same for a machine: machine_limits_hold COMMAND
machine_limits_hold() {
    start_in "$1" slow --cpu-limit 30
    cpu_limit_holds slow
    msb stop slow
    start_in "$1" box
    caps_hold box 1024 256
    msb pause box
    assert_equal "$(status_of box state)" paused
    msb resume box
    assert_equal "$(msb exec box -- echo alive)" alive
    machine_dies_alone box
}

# The unit of this process is divided, and what was in it lies in one part: lies_in_scope NAME
lies_in_scope() {
    local group
    group=$(box_group "$1")
    assert_contains "$group" "/msb-test-"
    assert_contains "$group" ".scope/msb/"
    assert_equal "$(group_of "$(status_of "$1" keeper_pid)")" "${group%/msb/*}/supervisor"
}

@test "root: a machine's limits hold, its group lies beside the units" {
    machine_limits_hold ""
    start_in "" box
    assert_equal "$(box_group box)" "$TOP/msb/$(status_of box keeper_pid)"
    msb stop box
}

@test "root: a jail's limits hold" {
    jail_limits_hold ""
}

@test "root: in a delegated scope the group lies in it, and the limits hold" {
    machine_limits_hold delegated
    jail_limits_hold delegated
    start_in delegated box
    lies_in_scope box
    msb stop box
}

@test "root: systemd leaves the limits alone when it sets its own" {
    local group limits
    start_in "" box --cpu-limit 30
    group=$(box_group box)
    limits=$(cat "$group"/{memory,pids,cpu}.max)
    systemctl daemon-reload
    systemd-run --wait --quiet -p CPUWeight=50 -p MemoryMax=100M true
    systemctl set-property --runtime ssh.service CPUWeight=200
    systemctl set-property --runtime ssh.service CPUWeight=
    assert_equal "$(cat "$group"/{memory,pids,cpu}.max)" "$limits"
    msb stop box
}

# A server whose sandboxes outlive it, as a unit: start_server [LINE…]
start_server() {
    printf '%s\n' '[Service]' "Environment=MSB_HOME=$MSB_HOME MSB_POOL_SIZE=0" KillMode=process "$@" \
        "ExecStart=$MSB server start --dev --port 5599" >/run/systemd/system/msb-test.service
    systemctl daemon-reload
    systemctl start msb-test.service
    within 20 curl --silent --fail --output /dev/null http://127.0.0.1:5599/api/v1/health
}

# survives_restart GROUP: where the sandboxes' groups have to lie
survives_restart() {
    curl --silent --fail -H 'Content-Type: application/json' http://127.0.0.1:5599/api/v1/rpc --data-binary \
        '{"jsonrpc":"2.0","id":1,"method":"sandbox.start","params":{"sandbox":"first","namespace":"default",
            "config":{"image":"microsandbox/python"}}}' >&2
    assert_contains "$(box_group first)" "$1/msb/"
    msb exec first -c 'x = 6'
    systemctl restart msb-test.service
    within 20 curl --silent --fail --output /dev/null http://127.0.0.1:5599/api/v1/health
    assert_equal "$(msb exec first -c 'print(x * 7)')" 42
    systemctl stop msb-test.service
    assert_equal "$(msb exec first -c 'print(x * 7)')" 42
    msb stop first
}

@test "root: sandboxes outlive a service that is started anew" {
    start_server
    survives_restart "$TOP"
}

@test "root: so they do where the service itself is delegated" {
    start_server Delegate=yes
    survives_restart "$TOP"
}

@test "root: in a delegated service with a group for itself they lie below it" {
    [ "$(systemctl --version | awk 'NR == 1 {print $2}')" -ge 254 ] || skip "systemd 254 is needed"
    start_server Delegate=yes DelegateSubgroup=supervisor
    survives_restart "$TOP/system.slice/msb-test.service"
}

@test "delegated: the group lies in the scope" {
    start_in delegated box
    lies_in_scope box
    msb stop box
}

@test "delegated: a machine's limits hold" {
    machine_limits_hold delegated
}

@test "delegated: a jail's limits hold" {
    jail_limits_hold delegated
}

@test "delegated: doctor finds caps" {
    assert_contains "$(delegated "$MSB" doctor)" "host memory of each sandbox is capped (version 2)"
}

@test "not delegated: machines run without caps, and doctor says so and what to do" {
    run msb doctor
    assert_contains "$output" "host memory of a sandbox is not capped"
    assert_contains "$output" "systemd-run --user --scope -p Delegate=yes"
    start_in "" box
    assert_equal "$(group_of "$(status_of box machine_pid)")" "$(group_of self)"
    msb pause box
    msb resume box
    assert_equal "$(msb exec box -- echo alive)" alive
    msb stop box
}

@test "not delegated: a jail's processes have what memory the kernel gives each, and it cannot be paused" {
    start_in "" wall --engine jail --memory 256
    run --separate-stderr msb exec wall -- python3 -c "$HOG"
    assert_equal "$status" 1
    assert_contains "$stderr" MemoryError
    run --separate-stderr msb pause wall
    [ "$status" -ne 0 ]
    assert_contains "$stderr" "systemd-run --user --scope -p Delegate=yes"
    msb stop wall
}
