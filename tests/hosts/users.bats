#!/usr/bin/env bats
# Ordinary users of a test host: alice is in the group kvm, bob is not. Each runs his own tests; see check-kvm.

load ../integration/helpers

setup_file() {
    :
}

@test "in the group kvm: the processor runs machines itself" {
    assert_contains "$(msb doctor)" "kvm: machines run on the processor itself"
    start_box box
    assert_contains "$(msb ps)" vm/kvm
    msb stop box
}

@test "in the group kvm: code, commands, files, time limits and copies work" {
    local shared
    shared=$(mktemp -d)
    assert_equal "$(msb exe python -c 'print(6*7)')" 42
    msb exe python -v "$shared:/data" -- sh -c 'echo hello >/data/file'
    assert_equal "$(cat "$shared/file") $(stat -c %U "$shared/file")" "hello $(id -un)"
    rm -r "$shared"
    run msb exe python --timeout 1 -- sleep 60
    assert_equal "$status" 124
    start_box first
    msb exec first -c 'x = 6'
    msb fork first second
    assert_equal "$(msb exec second -c 'print(x * 7)')" 42
    msb pause first
    msb resume first
    msb snapshot first --as kept
    msb stop first second
    msb restore kept third
    assert_equal "$(msb exec third -c 'print(x * 7)')" 42
    msb stop third
    msb snapshot --remove kept
    assert_nothing_left
}

@test "not in the group kvm: doctor says what to do" {
    run msb doctor
    assert_contains "$output" "/dev/kvm may not be opened by this user"
    assert_contains "$output" "join the group kvm"
}

@test "in the group kvm: a /dev/kvm that creates no machine is not used, and doctor says so" {
    assert_contains "$(msb doctor)" "kvm: machines run on the processor itself"
    run "$BATS_TEST_DIRNAME/without-kvm" "$MSB" doctor
    assert_contains "$output" "tcg: machines run in an emulator"
    assert_contains "$output" "no machine can be created with it"
}
