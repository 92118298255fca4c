#!/usr/bin/env bats
# What an idle machine has for itself.
load helpers

setup() {
    needs_machine
    needs_root
    msb exe python --detach --name idle-box -c 'print(6*7)' </dev/null
    QEMU=$(status_of idle-box machine_pid)
    # Pages of files that are not on the disk yet would count as its own.
    sync
}

teardown() {
    [ -z "$QEMU" ] || msb stop idle-box >&2
}

# Kilobytes of one kind, in mappings of at most so many kilobytes: kilobytes_of KIND LARGEST
kilobytes_of() {
    awk -v kind="$1:" -v largest="$2" '
        $1 == "Size:" { size = $2 }
        $1 == kind && size <= largest { sum += $2 }
        END { print sum + 0 }' "/proc/$QEMU/smaps"
}

@test "QEMU loads no large library that it never uses" {
    grep -qE '/capstone.so|/frozen' "/proc/$QEMU/maps"
    assert_equal "$(grep -cE 'libcapstone|libpmem|libcrypto' "/proc/$QEMU/maps")" 0
}

@test "small things are not in huge pages" {
    assert_equal "$(kilobytes_of AnonHugePages 16383)" 0
}

@test "a machine has at most 32 MiB for itself after its first call" {
    [ "$(kilobytes_of Private_Dirty 999999999)" -gt 0 ]
    [ "$(kilobytes_of Private_Dirty 999999999)" -lt 32768 ]
}

@test "nothing is left" {
    msb stop idle-box >&2
    QEMU=
    assert_nothing_left
}
