#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2154 # variables meant inside; stderr is set by bats
# Jails of an ordinary user: the same wall as far as he may build it, and what is missing is named.
# First with subordinate ids, then with his own id alone.

load helpers

NAME=msb-ordinary

ATTEMPTS="mounts namespaces other_processes keys risky_calls kernel sockets personality old_calls terminals
    devices landlock kernel_files groups privileges descriptors ways_up"

setup_file() {
    [ "$(id -u)" -eq 0 ] || return 0
    MSB_ENGINE=jail msb prepare python >&2
    HOME_OF_USER=$(mktemp -d)
    export HOME_OF_USER
    remove_user
    useradd --no-create-home --home-dir "$HOME_OF_USER" --shell /bin/sh \
        --key SUB_UID_COUNT=0 --key SUB_GID_COUNT=0 "$NAME"
    usermod --add-subuids 1700000000-1700065535 --add-subgids 1700000000-1700065535 "$NAME"
    copy_image "$HOME_OF_USER/.microsandbox/images"
    install -m 755 "$MSB" "$HOME_OF_USER/msb"
    chmod 755 "$HOME_OF_USER"
    chown "$NAME:" "$HOME_OF_USER"
    find "$HOME_OF_USER" -type d -exec chown "$NAME:" {} +
}

setup() {
    needs_root
}

teardown() {
    [ -n "$BATS_TEST_COMPLETED" ] || as_user ./msb stop --all >&2 || true
}

teardown_file() {
    [ "$(id -u)" -eq 0 ] || return 0
    as_user ./msb stop --all >&2 || true
    remove_user
    rm -rf "$HOME_OF_USER"
}

remove_user() {
    ! id "$NAME" >/dev/null 2>&1 || userdel "$NAME"
}

# The file of the image python and its name, by links where the folders lie on one disk.
copy_image() {
    local digest
    digest=$(sed -n 's/.*"digest": "sha256:\(.*\)".*/\1/p' "$MSB_HOME/images/refs/microsandbox/python.json")
    mkdir -p "$1/blobs" "$1/refs/microsandbox"
    cp "$MSB_HOME/images/refs/microsandbox/python.json" "$1/refs/microsandbox"
    cp -l "$MSB_HOME/images/blobs/sha256-$digest.erofs" "$1/blobs" ||
        cp "$MSB_HOME/images/blobs/sha256-$digest.erofs" "$1/blobs"
}

as_user() {
    (cd "$HOME_OF_USER" && env -i HOME="$HOME_OF_USER" PATH="$PATH" MSB_ENGINE=jail \
        setpriv --reuid "$NAME" --regid "$NAME" --init-groups timeout --kill-after=5 90 "$@")
}

field_of() {
    as_user ./msb ps --json | python3 -c '
import json, sys
print(*[box[sys.argv[2]] for box in json.load(sys.stdin) if box["name"] == sys.argv[1]])' "$@"
}

# What is unpacked, without the lock.
roots() {
    ls "$HOME_OF_USER/.microsandbox/images/roots"
}

attempts() {
    # shellcheck disable=SC2086 # several words
    as_user ./msb exec wall --user "$1" -- python3 - $ATTEMPTS <"$BATS_TEST_DIRNAME/jail_attempts.py"
}

@test "an unpacking that is interrupted leaves no jail, and the next one is whole" {
    (cd "$HOME_OF_USER" && env -i HOME="$HOME_OF_USER" PATH="$PATH" setpriv --reuid "$NAME" --regid "$NAME" \
        --init-groups timeout --signal=INT 0.3 ./msb exe --engine jail python -- true >/dev/null 2>&1) || true
    [[ $(roots) != *-1700000000 ]]
    as_user ./msb exe python -c 'print(1)' >"$BATS_TEST_TMPDIR/first" &
    as_user ./msb exe python -c 'print(2)' >"$BATS_TEST_TMPDIR/second"
    wait $!
    assert_equal "$(cat "$BATS_TEST_TMPDIR"/{first,second} | tr -d '\n')" 12
    assert_equal "$(roots | wc -l)" 1
    [ "$(stat -c %a "$HOME_OF_USER/.microsandbox/images/roots")" = 700 ]
}

@test "users inside are those of the image" {
    run as_user ./msb exe python -- sh -c 'id -un; stat -c %U /etc/shadow /workspace; touch /workspace/x'
    assert_equal "$output" "user
root
user"
    run as_user ./msb exe python --user root -- sh -c 'id -u; echo changed >/etc/issue; cat /etc/issue'
    assert_equal "$output" "0
changed"
    run as_user ./msb exe python -- cat /etc/issue
    [[ $output != changed ]]
}

@test "the doctor and --verbose say what is missing" {
    run as_user ./msb doctor
    assert_contains "$output" "--engine jail works, but: processes inside have your id on the host"
    [[ $output != *"no root inside"* ]]
    run --separate-stderr as_user ./msb exe python --verbose -c 'print(1)'
    assert_contains "$stderr" "Less of a wall than root gets"
}

@test "nothing gets out, whoever tries" {
    as_user ./msb exe python --detach --name wall -- true
    attempts user
    attempts root
    local process kind
    process=$(field_of wall machine_pid)
    for kind in user mnt pid net ipc uts cgroup time; do
        [ "$(readlink "/proc/$process/ns/$kind")" != "$(readlink "/proc/self/ns/$kind")" ]
    done
    run find "/proc/$process/fd" -lname "$HOME_OF_USER/*"
    assert_equal "$output" ""
}

@test "files of its user's home cannot be seen" {
    echo hidden >"$HOME_OF_USER/secret"
    chmod 644 "$HOME_OF_USER/secret"
    run as_user ./msb exec wall -- sh -c "cat $HOME_OF_USER/secret /proc/1/root$HOME_OF_USER/secret"
    [[ $output != *hidden* ]]
}

@test "a shared folder is his, and nothing is planted" {
    as_user mkdir shared
    run as_user ./msb exe python -v "$HOME_OF_USER/shared:/data" -- sh -c '
        cp /bin/true /data/t; chmod 4755 /data/t; stat -c %U /data/t'
    assert_contains "$output" user
    assert_equal "$(stat -c %U:%a "$HOME_OF_USER/shared/t")" "$NAME:755"
    run as_user ./msb exe python -v "$HOME_OF_USER/shared:/data:ro" -- touch /data/x
    assert_contains "$output" "Read-only file system"
    run --separate-stderr as_user ./msb exe python -v /:/data -- true
    assert_refused 125 "cannot share folder /"
}

@test "each process has its limit of memory, each user his of processes" {
    run as_user ./msb exe python --memory 256 -c 'x = bytearray(400 << 20)'
    assert_contains "$output" MemoryError
    run as_user ./msb exe python --processes 20 -- python3 -c '
import subprocess
try:
    for i in range(40): subprocess.Popen(["sleep", "5"])
except BlockingIOError:
    print("enough")'
    assert_contains "$output" enough
}

@test "after kill -9 of the keeper nothing is left" {
    local keeper machine
    keeper=$(field_of wall keeper_pid)
    machine=$(field_of wall machine_pid)
    kill -9 "$keeper"
    within 5 is_gone "$machine"
    as_user ./msb ps
    [ ! -d "$HOME_OF_USER/.microsandbox/sandboxes/default/wall" ]
}

@test "in a group of version 2 that is his, it can be paused, and the group is removed" {
    local top=/sys/fs/cgroup/unified
    [ -d "$top" ] || top=/sys/fs/cgroup
    [ -e "$top/cgroup.procs" ] || skip "needs control groups of version 2"
    mkdir -p "$top/$NAME"
    chown "$NAME" "$top/$NAME" "$top/$NAME/cgroup.procs"
    (
        echo "$BASHPID" >"$top/$NAME/cgroup.procs"
        as_user ./msb exe python --detach --name wall -- sh -c 'setsid sleep 1000 &'
    )
    grep -q "/$NAME/msb/" "/proc/$(field_of wall machine_pid)/cgroup"
    PYTHONPATH=$BATS_TEST_DIRNAME python3 -c '
import sys
from keeper_client import PAUSE, Keeper
with Keeper(sys.argv[1], "wall") as keeper:
    assert "message" not in keeper.ask(PAUSE)' "$HOME_OF_USER/.microsandbox"
    grep -q "frozen 1" "$top/$NAME/msb"/*/cgroup.events
    as_user ./msb stop wall
    within 5 rmdir "$top/$NAME/msb"
    within 5 rmdir "$top/$NAME"
}

@test "with one id alone it works too, without root inside" {
    usermod --del-subuids 1700000000-1700065535 --del-subgids 1700000000-1700065535 "$NAME"
    run as_user ./msb exe python --quiet -- sh -c 'id -u; touch /workspace/x && stat -c %U /etc/shadow'
    assert_equal "$output" "1000
user"
    run --separate-stderr as_user ./msb exe python --user root -- id
    assert_contains "$stderr" "one user alone"
    run as_user ./msb doctor
    assert_contains "$output" "no root inside"
    assert_contains "$output" "--add-subuids"
    as_user ./msb exe python --detach --name wall -- true
    attempts user
    as_user ./msb stop wall
}

@test "nothing is left" {
    as_user ./msb stop --all
    run find "$HOME_OF_USER/.microsandbox/sandboxes" -mindepth 2
    assert_equal "$output" ""
    run grep -F "$HOME_OF_USER" /proc/mounts
    assert_equal "$output" ""
}
