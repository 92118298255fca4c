#!/usr/bin/env bats
# The cases of tests/conformance in whole sandboxes, of both engines.
load helpers

# All cases of a language in a sandbox of an image: run_cases ENGINE IMAGE CLASS
run_cases() {
    msb exe "$2" --engine "$1" --detach --name "cases-$2" -- true </dev/null
    cd "$BATS_TEST_DIRNAME" || return
    MSB_CONFORMANCE=machine:cases-$2 timeout 300 python3 -m unittest "test_conformance.$3"
    msb stop "cases-$2"
}

@test "cases of Python" {
    run_cases vm python Python
}

@test "cases of Node" {
    run_cases vm node Node
}

@test "cases of bash" {
    run_cases vm python Bash
}

@test "cases of Python in a jail" {
    needs_root
    run_cases jail python Python
}

@test "cases of Python in a jail that got its interpreter from a zygote" {
    needs_root
    local url
    url=$(MSB_ENGINE=jail msb server start --dev --port 0 --detach)
    start_by_server "$url"
    within 60 finds_zygote
    run_cases jail python Python
    msb server stop
    msb stop --all
}

@test "cases of Node in a jail" {
    needs_root
    run_cases jail node Node
}

@test "cases of bash in a jail" {
    needs_root
    run_cases jail python Bash
}
