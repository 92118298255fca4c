#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2154 # variables meant inside; stderr is set by bats
# A host whose processors are all taken.
load helpers

setup() {
    LOAD=()
    local i
    for ((i = 0; i < $(nproc); i++)); do
        sha256sum /dev/zero 3>&- &
        LOAD+=("$!")
    done
}

teardown() {
    kill "${LOAD[@]}"
    [ -n "$BATS_TEST_COMPLETED" ] || msb stop --all >&2
}

@test "a template is built" {
    drop_templates 640
    run msb exe python --memory 640 -c 'print(6*7)'
    assert_equal "${lines[-1]}" 42
    assert_equal "$status" 0
}

@test "clones start" {
    local i
    for i in 1 2 3; do
        run --separate-stderr msb exe python -c 'print(6*7)'
        assert_equal "$output" 42
        assert_equal "$stderr" ""
    done
}

@test "nothing is left" {
    assert_nothing_left
}
