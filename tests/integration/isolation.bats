#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2154 # variables meant inside; stderr is set by bats
# The machine is one of its own, and QEMU around it is walled in.
load helpers

setup_file() {
    needs_root
    msb prepare python >&2
    msb stop --all >&2
    mkdir -p "$BATS_FILE_TMPDIR/shared"
    msb exe python -d -n jail-box -v "$BATS_FILE_TMPDIR/shared:/data" -- true
    QEMU=$(status_of jail-box machine_pid)
    KEEPER=$(status_of jail-box keeper_pid)
    export QEMU KEEPER
}

# All tests look at the one sandbox.
teardown() {
    :
}

field_of_qemu() {
    awk -v key="$1:" '$1 == key {print $2}' "/proc/$QEMU/status"
}

# The names in a folder, sorted, in one line.
entries() {
    find "$1/" -mindepth 1 -maxdepth 1 -printf '%f\n' | sort | tr '\n' ' ' | sed 's/ $//'
}

# Descriptors of QEMU that lead to files of this name: descriptors_to PATTERN
descriptors_to() {
    find "/proc/$QEMU/fd" -lname "$1" -printf '%f\n'
}

# Those among them that could be written through.
writable_descriptors_to() {
    local fd flags
    for fd in $(descriptors_to "$1"); do
        flags=$(awk '$1 == "flags:" {print $2}' "/proc/$QEMU/fdinfo/$fd")
        [ $((0$flags & 3)) -eq 0 ] || echo "$fd"
    done
}

# The template that the sandbox was cloned from, seen from QEMU's open files.
template_folder() {
    dirname "$(find "/proc/$QEMU/fd" -lname "$MSB_HOME/templates/*" -printf '%l\n' | head -1)"
}

@test "the kernel inside is another one" {
    run msb exec jail-box -- uname -r
    [ "$output" != "$(uname -r)" ]
    assert_equal "$output" "$(status_of jail-box guest_kernel)"
}

@test "there is no network device but loopback" {
    run msb exec jail-box -- ls /sys/class/net
    assert_equal "$output" lo
    run msb exec jail-box -- sudo sh -c 'ls /sys/bus/pci/devices 2>/dev/null; cat /proc/net/route | tail -n +2'
    assert_equal "$output" ""
}

@test "loopback works inside and is not the host's" {
    python3 -u -c '
import http.server
server = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
print(server.server_port)
server.serve_forever()' >"$BATS_TEST_TMPDIR/port" 2>/dev/null 3>&- &
    local server=$! url
    within 10 test -s "$BATS_TEST_TMPDIR/port"
    url=http://127.0.0.1:$(cat "$BATS_TEST_TMPDIR/port")
    curl --silent --max-time 5 --output /dev/null "$url"
    run msb exec jail-box -- curl --silent --max-time 5 "$url"
    kill "$server"
    assert_equal "$status" 7
}

@test "root inside changes nothing of the template" {
    local folder before
    folder=$(template_folder)
    before=$(find "$folder" -not -name template.json -type f -printf '%f %s %t\n' | sort)
    msb exec jail-box -- sudo sh -c 'head -c 200M /dev/urandom >/dev/shm/a; head -c 50M /dev/urandom >/var/a
        sync; rm /dev/shm/a'
    assert_contains "$before" overlay
    assert_equal "$(find "$folder" -not -name template.json -type f -printf '%f %s %t\n' | sort)" "$before"
    run msb exe python -- ls /var/a
    [ "$status" -ne 0 ]
}

@test "the image cannot be written, also by root" {
    run msb exec jail-box -- sudo sh -c 'echo x >/dev/vda; sync; head -c 1 /dev/vda >/dev/null && echo readable'
    assert_contains "$output" "readable"
    local image
    image=$(status_of jail-box image_path)
    assert_equal "$(stat -c %a "$image")" 444
    [ -n "$(descriptors_to "$image")" ]
    assert_equal "$(writable_descriptors_to "$image")" ""
}

@test "QEMU is the keeper's child" {
    assert_equal "$(awk '{print $4}' "/proc/$QEMU/stat")" "$KEEPER"
}

@test "QEMU has namespaces of its own" {
    local name
    for name in user mnt pid_for_children net ipc uts; do
        [ "$(readlink "/proc/$QEMU/ns/$name")" != "$(readlink "/proc/self/ns/$name")" ]
    done
}

@test "QEMU has no rights and cannot get any" {
    [ "$(field_of_qemu Uid)" -ne 0 ]
    [ "$(field_of_qemu Gid)" -ne 0 ]
    assert_equal "$(field_of_qemu NoNewPrivs)" 1
    assert_equal "$(field_of_qemu Seccomp)" 2
    assert_equal "$(field_of_qemu CapEff)" 0000000000000000
    assert_equal "$(field_of_qemu CapPrm)" 0000000000000000
    assert_equal "$(awk '$1 == "Groups:" {print NF}' "/proc/$QEMU/status")" 1
}

@test "no two machines share a user" {
    start_box second-box
    [ "$(awk '/^Uid:/ {print $2}' "/proc/$(status_of second-box machine_pid)/status")" != "$(field_of_qemu Uid)" ]
    msb stop second-box
}

@test "QEMU sees libraries, its firmware and the shared folders, nothing else" {
    if [ "$(readlink "/proc/$QEMU/exe")" = /thaw ]; then
        assert_equal "$(entries "/proc/$QEMU/root")" "lib lib64 proc thaw usr volumes"
        assert_equal "$(entries "/proc/$QEMU/root/usr")" "bin lib lib64"
    else
        assert_equal "$(entries "/proc/$QEMU/root")" "capstone.so lib lib64 pmem.so proc usr volumes"
        assert_equal "$(entries "/proc/$QEMU/root/usr")" "bin lib lib64 share"
    fi
    assert_equal "$(ls "/proc/$QEMU/root/usr/bin")" "$(basename "$(tr '\0' '\n' <"/proc/$QEMU/cmdline" | head -1)")"
    assert_equal "$(ls "/proc/$QEMU/root/volumes")" 0
    # Of processes it sees itself alone, and nothing of the host's kernel.
    assert_equal "$(entries "/proc/$QEMU/root/proc")" "1 self thread-self"
}

@test "what is mounted below the libraries stops no machine" {
    run unshare --mount --propagation private bash -euc '
        mount --bind /dev/null /usr/lib/os-release
        exec timeout --kill-after=5 180 "$0" exe python -- echo hi' "$MSB"
    assert_equal "$output" hi
}

@test "QEMU's root cannot be written" {
    run touch "/proc/$QEMU/root/new"
    [ "$status" -ne 0 ]
    run touch "/proc/$QEMU/root/usr/lib/new"
    [ "$status" -ne 0 ]
}

@test "QEMU holds the template for reading only" {
    [ -n "$(descriptors_to "$MSB_HOME/templates/*")" ]
    assert_equal "$(writable_descriptors_to "$MSB_HOME/templates/*")" ""
    # No mapping of the memory file is both shared and writable.
    run grep -E '^[^ ]+ .w.s .*/templates/' "/proc/$QEMU/maps"
    assert_equal "$output" ""
}

@test "QEMU has only the descriptors it needs" {
    local others
    others=$(find "/proc/$QEMU/fd" -type l -printf '%l\n' | grep -vE \
        '^(socket|pipe|anon_inode):|^/dev/null$|^/memfd:|^/dev/kvm$' |
        grep -vF -e "$MSB_HOME/templates/" -e "$MSB_HOME/images/" -e "$(state_folder jail-box)/disk" |
        grep -vF "$BATS_FILE_TMPDIR/shared" | grep -vE '^/(volumes.*|null)?$' || true)
    assert_equal "$others" ""
}

@test "host memory and processes of a sandbox are capped" {
    local limit processes
    limit=$(cat "/sys/fs/cgroup/memory/msb/$KEEPER/memory.limit_in_bytes" 2>/dev/null ||
        cat "/sys/fs/cgroup/msb/$KEEPER/memory.max")
    processes=$(cat "/sys/fs/cgroup/pids/msb/$KEEPER/pids.max" 2>/dev/null ||
        cat "/sys/fs/cgroup/msb/$KEEPER/pids.max")
    [ "$limit" -gt $((1024 << 20)) ]
    [ "$limit" -le $((2048 << 20)) ]
    [ "$processes" -le 512 ]
    grep -q "/msb/$KEEPER\$" "/proc/$QEMU/cgroup"
}

@test "code that eats all memory ends alone" {
    run --separate-stderr msb exec jail-box -- python3 -c 'x = bytearray(3 << 30)'
    [ "$status" -ne 0 ]
    run msb exec jail-box -- echo alive
    assert_equal "$output" alive
}

@test "a fork bomb leaves the sandbox answering" {
    run --separate-stderr msb exec jail-box --timeout 3 -- bash -c 'f() { f | f & }; f; sleep 100'
    [ "$status" -ne 0 ]
    run msb exec jail-box -- echo alive
    assert_equal "$output" alive
}

@test "nothing is left" {
    msb stop jail-box
    assert_nothing_left
}
