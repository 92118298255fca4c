#!/usr/bin/env bats
# The cases of tests/conformance in whole sandboxes.
load helpers

# All cases of a language in a sandbox of an image: run_cases IMAGE CLASS
run_cases() {
    msb exe "$1" --detach --name "cases-$1" -- true </dev/null
    cd "$BATS_TEST_DIRNAME" || return
    MSB_CONFORMANCE=machine:cases-$1 timeout 300 python3 -m unittest "test_conformance.$2"
    msb stop "cases-$1"
}

@test "cases of Python" {
    run_cases python Python
}

@test "cases of Node" {
    run_cases node Node
}

@test "cases of bash" {
    run run_cases python Bash
    [[ $output != *"Ran 0 tests"* ]] || skip "the agent has no bash context"
    assert_equal "$status" 0
}
