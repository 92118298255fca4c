#!/usr/bin/env bats
# Tools for models, over pipes and over HTTP, with real sandboxes: jails where that is possible.
load helpers

setup_file() {
    [ "$(id -u)" -ne 0 ] || export MSB_ENGINE=${MSB_ENGINE:-jail}
    msb prepare python node >&2
    msb stop --all >&2
}

# tools CLASS…: their tests
tools() {
    cd "$REPOSITORY/tests/integration" || return
    [ "$(id -u)" -ne 0 ] || export MSB_ENGINE=${MSB_ENGINE:-jail}
    timeout 240 python3 -W error::ResourceWarning -m unittest "${@/#/mcp_tools.}"
}

@test "what is offered" {
    tools Offer
}

@test "Python in sessions" {
    tools Python
}

@test "files of sessions" {
    tools Files
}

@test "sandboxes by name" {
    tools Sandboxes
}

@test "work that takes long" {
    tools LongWork
}

@test "the set for sessions" {
    tools SessionSet
}

@test "processes on stdio" {
    tools Processes
    assert_nothing_left
}

@test "over HTTP" {
    tools Http Keys
}

@test "nothing but the protocol is on stdout" {
    run --separate-stderr msb mcp --tools nonsense </dev/null
    assert_refused 2 'there is no set of tools "nonsense"'
    run --separate-stderr msb mcp </dev/null
    assert_equal "$status$output" 0
}
