#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2154 # variables meant inside; stderr is set by bats
# The jail engine: what stands around it is tried for real, from inside, as user and as root.

load helpers

setup_file() {
    [ "$(id -u)" -eq 0 ] || return 0
    export MSB_ENGINE=jail
    msb prepare python >&2
    msb stop --all >&2
    start_box wall --memory 256 --processes 200 >&2
}

setup() {
    needs_root
    export MSB_ENGINE=jail
}

# The box is for all tests, also when one has failed.
teardown() {
    :
}

# attempts NAME…: none of them works, whoever tries
attempts() {
    local user
    for user in user root; do
        msb exec wall --user "$user" -- python3 - "$@" <"$BATS_TEST_DIRNAME/jail_attempts.py"
    done
}

@test "it is listed as what it is" {
    run msb ps
    assert_contains "$output" "jail/native"
    assert_equal "$(status_of wall guest_kernel)" "$(uname -r)"
}

@test "mounts cannot be changed" {
    attempts mounts
}

@test "namespaces cannot be made or entered" {
    attempts namespaces
}

@test "other processes, the agent among them, cannot be looked into" {
    attempts other_processes
}

@test "keys are out of reach" {
    attempts keys
}

@test "calls with a history do not exist" {
    attempts risky_calls
}

@test "modules, clocks, reboots are not for a jail" {
    attempts kernel
}

@test "sockets are of the ordinary kinds only" {
    attempts sockets
}

@test "no other personality, no 32-bit calls" {
    attempts personality old_calls
}

@test "nothing is typed into a terminal by TIOCSTI" {
    attempts terminals
}

@test "devices are those that only compute" {
    attempts devices landlock
}

@test "the kernel's files can be neither written nor read for secrets" {
    attempts kernel_files
}

@test "control groups are not to be seen" {
    attempts groups
}

@test "no privileges, and no way to any" {
    attempts privileges descriptors
}

@test "system calls are those of the list" {
    [ -e /usr/include/x86_64-linux-gnu/asm/unistd_64.h ] || skip "needs the numbers of system calls"
    msb exec wall -- python3 - <"$BATS_TEST_DIRNAME/call_sweep.py" 2>/dev/null |
        python3 "$BATS_TEST_DIRNAME/call_lists.py"
}

@test "the root is the top" {
    attempts ways_up
}

@test "files of the host cannot be seen or written" {
    local secret=$BATS_TEST_TMPDIR/secret
    echo hidden >"$secret"
    chmod 644 "$secret"
    run msb exec wall -- sh -c "cat $secret /proc/1/root$secret ../../../..$secret; ls $MSB_HOME"
    [[ $output != *hidden* ]]
    msb exec wall --user root -- sh -c 'echo changed >/etc/issue; echo changed >/usr/bin/yes'
    run msb exe python -- sh -c 'cat /etc/issue; true'
    [[ $output != *changed* ]]
    [[ $(cat /etc/issue) != changed ]]
}

@test "sandboxes do not see each other" {
    start_box other
    msb exec other -- sh -c 'echo secret >/dev/shm/file; echo secret >/tmp/file; sleep 1000 & exec 3<>/dev/null'
    run msb exec wall -- sh -c 'cat /dev/shm/file /tmp/file; ps ax'
    [[ $output != *secret* && $output != *"sleep 1000"* ]]
    msb stop other
}

@test "there is no network but loopback, and that is not the host's" {
    run msb exec wall -- python3 -c '
import socket
print([name for _, name in socket.if_nameindex()])
server = socket.create_server(("127.0.0.1", 80))
socket.create_connection(("127.0.0.1", 80))
try:
    socket.create_connection(("192.0.2.1", 80), 2)
except OSError as reason:
    print(reason.strerror)'
    assert_equal "$output" "['lo']
Network is unreachable"
}

@test "the host runs its processes with ids of nobody" {
    local process
    process=$(status_of wall machine_pid)
    [ "$(stat -c %u "/proc/$process")" -ge 2000000000 ]
    start_box other
    [ "$(stat -c %u "/proc/$process")" != "$(stat -c %u "/proc/$(status_of other machine_pid)")" ]
    msb stop other
}

@test "no namespace is the host's" {
    local process kind
    process=$(status_of wall machine_pid)
    for kind in user mnt pid net ipc uts cgroup time; do
        [ "$(readlink "/proc/$process/ns/$kind")" != "$(readlink "/proc/self/ns/$kind")" ]
    done
}

@test "a start that fails leaves nothing and says why" {
    run --separate-stderr msb exe python -v /proc:/data -- true
    assert_refused 125 "does not let owners be translated"
    [ ! -d "$MSB_HOME/sandboxes/default" ] || [ -z "$(find "$MSB_HOME/sandboxes/default" -name 'exe-*')" ]
}

@test "the keeper's descriptors do not leak to the agent" {
    local process
    process=$(status_of wall machine_pid)
    run find "/proc/$process/fd" -lname "$MSB_HOME/*"
    assert_equal "$output" ""
    assert_equal "$(readlink "/proc/$process/cwd")" /
}

@test "a shared folder: the user's own, and nothing can be planted" {
    mkdir "$BATS_TEST_TMPDIR/shared"
    chown 1234:1234 "$BATS_TEST_TMPDIR/shared"
    run msb exe python -v "$BATS_TEST_TMPDIR/shared:/some/where" -- sh -c '
        cd /some/where && cp /bin/true t; chmod 6755 t; python3 -c "
import os
os.open(\"u\", os.O_CREAT | os.O_WRONLY, 0o4755)"; stat -c %u:%a t'
    assert_contains "$output" 1000:755
    [ ! -e "$BATS_TEST_TMPDIR/shared/u" ]
    assert_equal "$(stat -c %u:%g:%a "$BATS_TEST_TMPDIR/shared/t")" 1234:1234:755
    run msb exe python -v "$BATS_TEST_TMPDIR/shared:/some/where:ro" -- touch /some/where/x
    assert_contains "$output" "Read-only file system"
}

@test "paused, nothing runs; resumed, it goes on" {
    run timeout 60 python3 "$BATS_TEST_DIRNAME/pause.py" wall
    assert_equal "$status" 0
}

@test "tools of every day work" {
    run msb exec wall -- sh -c '
        set -e
        cd /tmp
        python3 -c "import multiprocessing as m, subprocess, threading, ssl, sqlite3, socket
pool = m.Pool(2); assert pool.map(abs, [-1, 2]) == [1, 2]; pool.close()"
        tar cf x.tar /etc/passwd && tar tf x.tar | grep -q passwd
        find / -xdev -name passwd >/dev/null 2>&1 || true
        bash -c "cat <(echo works) | tee out; sleep 0.1 & wait"
        ps ax >/dev/null; kill -0 $$; nice true; timeout 5 true; setsid true'
    assert_equal "$status" 0
}

@test "after kill -9 of a keeper nothing is left" {
    start_box doomed
    local keeper machine
    keeper=$(status_of doomed keeper_pid)
    machine=$(status_of doomed machine_pid)
    "$MSB" exec doomed -- sleep 1000 </dev/null >/dev/null 2>&1 3>&- &
    kill -9 "$keeper"
    within 5 is_gone "$machine"
    msb ps
    [ ! -d "$(state_folder doomed)" ]
    groups_are_swept() {
        msb ps >&2
        [ ! -d "/sys/fs/cgroup/unified/msb/$keeper" ] && [ ! -d "/sys/fs/cgroup/memory/msb/$keeper" ]
    }
    within 10 groups_are_swept
}

@test "so it is when the sandbox was paused" {
    start_box frozen
    local keeper machine
    keeper=$(status_of frozen keeper_pid)
    machine=$(status_of frozen machine_pid)
    PYTHONPATH=$BATS_TEST_DIRNAME python3 -c '
import sys
from keeper_client import PAUSE, Keeper
with Keeper(sys.argv[1], "frozen") as keeper:
    keeper.ask(PAUSE)' "$MSB_HOME"
    kill -9 "$keeper"
    within 5 is_gone "$machine"
    msb ps
    [ ! -d "$(state_folder frozen)" ]
}

# In a view of its own where only version 2 is there; what version 1 has it cannot have.
with_version_2_alone() {
    unshare --mount sh -c 'umount --recursive --lazy /sys/fs/cgroup; mount -t cgroup2 none /sys/fs/cgroup && "$@"' sh "$@"
}

@test "without controllers there is no jail, and it says what is missing" {
    ! with_version_2_alone grep -qw memory /sys/fs/cgroup/cgroup.controllers || skip "version 2 has them here"
    run --separate-stderr with_version_2_alone "$MSB" exe python -- true
    assert_refused 125 "no controllers memory and pids"
    run with_version_2_alone "$MSB" doctor
    assert_contains "$output" "--engine jail does not work: version 2 has no controllers memory and pids"
}

@test "where version 2 is alone and has controllers, they limit from birth" {
    with_version_2_alone grep -qw memory /sys/fs/cgroup/cgroup.controllers || skip "version 1 has them here"
    run with_version_2_alone "$MSB" exe python --memory 256 -- python3 -c 'x = bytearray(1 << 30)'
    assert_equal "$status" 137
}

@test "limits hold before anything runs inside" {
    local process
    process=$(status_of wall machine_pid)
    run grep -c "/msb/$(status_of wall keeper_pid)" "/proc/$process/cgroup"
    [ "$output" -ge 1 ]
    [ ! -d /sys/fs/cgroup/memory ] || grep -q "memory:/msb/" "/proc/$process/cgroup"
    [ ! -d /sys/fs/cgroup/pids ] || grep -q "pids:/msb/" "/proc/$process/cgroup"
}

@test "engines that do not exist are refused by name" {
    run --separate-stderr msb exe python --engine cage -- true
    assert_refused 2 "there is no engine \"cage\""
}

@test "nothing is left" {
    msb stop --all
    assert_nothing_left
}
