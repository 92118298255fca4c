#!/usr/bin/env bats
# shellcheck disable=SC2154 # stderr is set by bats
# Where processors are emulated, machines are thawed: each is a copy of a QEMU that has everything translated.
load helpers

SIZE=640

setup_file() {
    msb stop --all >&2
    drop_templates $SIZE
}

setup() {
    needs_machine
    start_box cold-box --memory $SIZE
    [ "$(status_of cold-box accelerator)" = tcg ] || skip "the kernel has a part of each machine here"
    QEMU=$(status_of cold-box machine_pid)
    TEMPLATE=$(dirname "$(find "/proc/$QEMU/fd" -lname "$MSB_HOME/templates/*/ram" -printf '%l\n' | head -1)")
}

teardown() {
    msb stop --all >&2
}

is_thawed() {
    grep -q "$TEMPLATE/frozen" "/proc/$(status_of "$1" machine_pid)/maps"
}

@test "a machine is a copy of the one that was frozen" {
    is_thawed cold-box
    run msb exec cold-box -- sh -c 'echo in >/tmp/a; cat /tmp/a; sleep 0.1; date +%Y'
    assert_equal "$output" "in
$(date +%Y)"
}

@test "copies share what was translated before" {
    # What is not on the disk yet counts as the only reader's.
    sync "$TEMPLATE"/*
    msb exe python --memory $SIZE --detach --name other-box -c 'print(6*7)' </dev/null
    local own
    own=$(awk '$1 == "Private_Dirty:" { sum += $2 } END { print sum }' \
        "/proc/$(status_of other-box machine_pid)/smaps")
    [ "$own" -gt 0 ]
    [ "$own" -lt 16384 ]
}

@test "with disks to be kept, shared folders, two processors" {
    local folder=$BATS_TEST_TMPDIR/shared
    mkdir -p "$folder"
    chmod 777 "$folder"
    run msb exe python --memory $SIZE --keep --name kept-box --volume "$folder:/data" -- sh -c 'echo 1 >~/a; echo 2 >/data/b'
    assert_equal "$status" 0
    assert_equal "$(cat "$folder/b")" 2
    run msb exe python --memory $SIZE --keep --name kept-box -- sh -c 'cat ~/a'
    assert_equal "$output" 1
    msb kept --remove kept-box >&2
    start_box two-box --memory 512 --cpus 2
    grep -q '/templates/.*/frozen' "/proc/$(status_of two-box machine_pid)/maps"
    assert_equal "$(msb exec two-box -- nproc)" 2
}

@test "the empty disk takes nothing" {
    run msb exec cold-box -- sudo dd if=/dev/zero of=/dev/vdc bs=1M count=1 oflag=direct
    [ "$status" -ne 0 ]
    assert_contains "$output" "/dev/vdc"
    assert_equal "$(msb exec cold-box -- echo alive)" alive
}

@test "one of another start of the host is made anew" {
    local before
    before=$(stat -c %i "$TEMPLATE/frozen")
    printf 'x' | dd of="$TEMPLATE/frozen" bs=1 seek=8 conv=notrunc status=none
    start_box new-box --memory $SIZE
    [ "$(stat -c %i "$TEMPLATE/frozen")" != "$before" ]
    is_thawed new-box
    is_thawed cold-box
}

@test "one with other libraries is made anew" {
    # The size of the first of its files, as if that had been updated since.
    python3 -c '
import struct, sys
with open(sys.argv[1], "r+b") as file:
    file.seek(184)
    size_at = struct.unpack("<Q", file.read(8))[0] + 8
    file.seek(size_at)
    size = struct.unpack("<Q", file.read(8))[0]
    assert size > 4096, size
    file.seek(size_at)
    file.write(struct.pack("<Q", size + 1))' "$TEMPLATE/frozen"
    local before
    before=$(stat -c %i "$TEMPLATE/frozen")
    start_box new-box --memory $SIZE
    [ "$(stat -c %i "$TEMPLATE/frozen")" != "$before" ]
    is_thawed new-box
}

@test "one that was cut is made anew" {
    truncate --size=-4096 "$TEMPLATE/frozen"
    msb stop cold-box >&2
    start_box new-box --memory $SIZE
    is_thawed new-box
}

@test "one that cannot be thawed is not needed" {
    # How many threads it has, which nobody looks at before.
    printf '\377' | dd of="$TEMPLATE/frozen" bs=1 seek=176 conv=notrunc status=none
    msb stop cold-box >&2
    run --separate-stderr msb exe python --memory $SIZE -c 'print(6*7)' </dev/null
    assert_equal "$output" 42
    start_box slow-box --memory $SIZE
    run is_thawed slow-box
    [ "$status" -ne 0 ]
    rm "$TEMPLATE/frozen"
}

@test "a host that cannot freeze starts machines as ever" {
    local boot
    boot=$(cat /proc/sys/kernel/random/boot_id)
    cp "$TEMPLATE/frozen" "$BATS_TEST_TMPDIR/frozen"
    { printf '!ozennot%s' "$boot"; head -c 4096 /dev/zero; } >"$TEMPLATE/frozen.new"
    mv "$TEMPLATE/frozen.new" "$TEMPLATE/frozen"
    run --separate-stderr msb exe python --memory $SIZE --detach --name slow-box -- true </dev/null
    local state=$status said=$stderr thawed=0
    is_thawed slow-box || thawed=$?
    mv "$BATS_TEST_TMPDIR/frozen" "$TEMPLATE/frozen"
    assert_equal "$state" 0
    assert_equal "$said" ""
    [ "$thawed" -ne 0 ]
}

@test "QEMU gets no descriptor of whoever started it" {
    exec 57</dev/null
    start_box open-box
    exec 57<&-
    local pid
    pid=$(status_of open-box machine_pid)
    assert_equal "$(find "/proc/$pid/fd" -lname /dev/null -printf '%f ')" ""
}

@test "nothing is left" {
    msb stop --all >&2
    drop_templates $SIZE
    assert_nothing_left
}
