# shellcheck shell=bash
# What the tests of whole sandboxes share. MSB_ENGINE chooses what isolates them. They all use one home folder, kept between runs, so that
# templates are built once: MSB_TEST_HOME, made ready by `msb prepare python node`.

REPOSITORY=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
MSB=${MSB_BIN:-$REPOSITORY/build/msb}
ENGINE=${MSB_ENGINE:-vm}
MSB_HOME=${MSB_TEST_HOME:-$REPOSITORY/build/test-home}
export MSB MSB_HOME
unset MSB_KERNEL MSB_QEMU MSB_LOG MSB_LOG_LEVEL MSB_LOG_FILE MSB_LOG_FORMAT

bats_require_minimum_version 1.5.0

# Time limits suit a host that runs machines at its own speed. On a slower one MSB_TEST_PATIENCE multiplies
# them, all but those that a test wants to run into.
PATIENCE=${MSB_TEST_PATIENCE:-1}
timeout() {
    local arguments=("$@") i
    for ((i = 0; i < $#; i++)); do
        [[ ${arguments[i]} == -* ]] || break
    done
    [[ ! ${arguments[i]} =~ ^[0-9]+$ ]] || arguments[i]=$((arguments[i] * PATIENCE))
    command timeout "${arguments[@]}"
}

# What takes longer than this hangs; the longest is the building of a template on a busy host.
msb() {
    timeout --kill-after=5 180 "$MSB" "$@"
}

setup_file() {
    msb prepare python node >&2
    msb stop --all >&2
}

# A test that failed half-way must not make others fail.
teardown() {
    [ -n "$BATS_TEST_COMPLETED" ] || msb stop --all >&2
}

teardown_file() {
    msb stop --all >&2
}

# For tests that give files away, mount, or look into processes of other users.
needs_root() {
    [ "$(id -u)" -eq 0 ] || skip "needs root"
}

# For what only a machine of its own has: its own kernel's figures, a root with all rights.
needs_machine() {
    [ "$ENGINE" = vm ] || skip "needs a machine"
}

# A detached sandbox: start_box NAME [OPTIONS…]
start_box() {
    msb exe python --detach --name "$@" -- true </dev/null
}

# A sandbox that the server at URL starts, which makes it keep a zygote for jails: start_by_server URL
start_by_server() {
    curl --silent --max-time 60 -H 'Content-Type: application/json' "$1/api/v1/rpc" \
        --data-binary '{"jsonrpc":"2.0","id":1,"method":"sandbox.start","params":{"sandbox":"first",
            "namespace":"default","config":{"image":"microsandbox/python","memory":256}}}' >&2
}

# Whether the context of a new jail is a copy of a zygote: finds_zygote [OPTIONS…]
finds_zygote() {
    local code='import sys; print(any(type(f).__name__ == "Preloaded" for f in sys.meta_path))'
    [ "$(msb exe python --engine jail "$@" -c "$code" </dev/null)" = True ]
}

# One value of a running sandbox, by its key in `msb ps --json`: status_of NAME KEY
status_of() {
    msb ps --json | python3 -c '
import json, sys
print(*[box[sys.argv[2]] for box in json.load(sys.stdin) if box["name"] == sys.argv[1]])' "$@"
}

state_folder() {
    echo "$MSB_HOME/sandboxes/default/$1"
}

# Folders of the templates of machines with so many megabytes. Tests that build, cut or remove
# templates use sizes of their own.
templates_of() {
    grep -l "\"memory_mb\": $1" "$MSB_HOME"/templates/*/template.json | xargs --no-run-if-empty dirname
}

drop_templates() {
    templates_of "$1" | xargs --no-run-if-empty rm -r
}

# Runs a command again until it succeeds: within SECONDS COMMAND…
within() {
    local deadline=$((SECONDS + $1 * PATIENCE))
    shift
    until "$@"; do
        if [ "$SECONDS" -ge "$deadline" ]; then
            echo "not in time: $*" >&2
            return 1
        fi
        sleep 0.05
    done
}

is_gone() {
    ! kill -0 "$1" 2>/dev/null
}

# Fails and shows both: assert_equal ACTUAL EXPECTED
assert_equal() {
    [ "$1" = "$2" ] || {
        printf 'got:      %s\nexpected: %s\n' "$1" "$2" >&2
        return 1
    }
}

# assert_contains TEXT PART
assert_contains() {
    [[ $1 == *"$2"* ]] || {
        printf 'got:     %s\nwithout: %s\n' "$1" "$2" >&2
        return 1
    }
}

# After `run --separate-stderr`: refused with this exit code, a sentence of ours that says PART, and
# nothing on stdout: assert_refused EXIT-CODE PART
assert_refused() {
    # shellcheck disable=SC2154 # set by bats
    assert_equal "$status" "$1" && assert_equal "$output" "" &&
        assert_contains "$stderr" "msb: " && assert_contains "$stderr" "$2"
}

# Keepers and machines hold files of the home folder open.
processes_of_home() {
    local process
    for process in /proc/[0-9]*; do
        if find "$process/fd" -maxdepth 1 -lname "$MSB_HOME/*" -print -quit 2>/dev/null | grep -q .; then
            echo "${process#/proc/} $(tr '\0' ' ' 2>/dev/null <"$process/cmdline")"
        fi
    done
}

# Groups are named after keepers; those of the living belong to other homes or were listed above.
ownerless_groups() {
    local group
    for group in /sys/fs/cgroup/{memory,pids,cpu,unified,.}/msb/[0-9]*; do
        if [ -d "$group" ] && is_gone "${group##*/}"; then
            echo "$group"
        fi
    done
}

leftovers() {
    processes_of_home
    ownerless_groups
    find "$MSB_HOME/sandboxes" -mindepth 1 -type d
    find "$MSB_HOME/tmp" -mindepth 1 -maxdepth 1 ! -name lock
    grep -F " $MSB_HOME/" /proc/mounts || true
}

nothing_left() {
    [ -z "$(leftovers)" ]
}

# An attached sandbox is removed right after its caller has its exit code: so there is some patience.
assert_nothing_left() {
    within 30 nothing_left || {
        leftovers >&2
        return 1
    }
}

swept_clean() {
    msb ps >&2
    nothing_left
}

# What keepers leave that were killed is removed by the next msb, as far as its processes have ended.
assert_swept() {
    within 10 swept_clean || {
        leftovers >&2
        return 1
    }
}
