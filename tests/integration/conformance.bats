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
    run_cases python Bash
}

@test "cases of Python in a jail that got its interpreter from a zygote" {
    [ "$ENGINE" = jail ] || skip "needs a jail"
    local url
    url=$(msb server start --dev --port 0 --detach)
    start_by_server "$url"
    within 60 finds_zygote
    run_cases python Python
    msb server stop
    msb stop --all
}
