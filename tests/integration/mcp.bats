#!/usr/bin/env bats
# The official conformance suite of the Model Context Protocol, against a program that offers what
# the suite wants on the library that msb uses, and as far as it needs nothing special against the
# server itself. The suite comes from npm, with the Node it needs.
load helpers
load npm

FIXTURE=$(dirname "$MSB")/tests/mcp-fixture

setup_file() {
    install_all "old @modelcontextprotocol/conformance@0.1.16" \
        "new @modelcontextprotocol/conformance@0.2.0-alpha.12" >"$BATS_FILE_TMPDIR/why"
}

setup() {
    [ ! -s "$BATS_FILE_TMPDIR/why" ] || skip "$(cat "$BATS_FILE_TMPDIR/why")"
}

start_fixture() {
    mkfifo "$BATS_TEST_TMPDIR/url"
    "$FIXTURE" "$REPOSITORY/tests/mcp/fixture.json" >"$BATS_TEST_TMPDIR/url" 3>&- &
    fixture=$!
    read -r url <"$BATS_TEST_TMPDIR/url"
}

teardown() {
    [ -z "${fixture:-}" ] || kill "$fixture"
    [ -z "${server:-}" ] || msb server stop
}

# In a home of its own: these scenarios start no sandbox.
start_server() {
    export MSB_HOME=$BATS_TEST_TMPDIR/home
    server=$(msb server start --dev --port 0 --detach)
    url=$server/mcp
}

# suite old|new OPTIONS…: its report; fails when a check that counts has failed
suite() {
    (cd "$BATS_TEST_TMPDIR" && node22 \
        "$PACKAGES/$1/node_modules/@modelcontextprotocol/conformance/dist/index.js" server \
        --url "$url" "${@:2}")
}

@test "the suite of 2025-11-25, with what is pending" {
    start_fixture
    suite old --suite all
}

@test "the requirements of 2025-11-25" {
    start_fixture
    suite new --requirements 2025-11-25
}

@test "the requirements of 2026-07-28" {
    start_fixture
    suite new --requirements 2026-07-28
}

@test "headers of arguments" {
    start_fixture
    suite new --scenario http-custom-header-server-validation --spec-version 2026-07-28
    suite new --scenario http-header-validation --spec-version 2026-07-28
}

# each old|new PATH SCENARIO…, at the server
each() {
    local scenario
    url=$server$2
    for scenario in "${@:3}"; do
        suite "$1" --scenario "$scenario" || return 1
    done
}

@test "the server: what needs nothing special in 2025-11-25" {
    local path
    start_server
    for path in /mcp /mcp/sessions; do
        each old "$path" server-initialize ping logging-set-level tools-list resources-list \
            prompts-list server-sse-multiple-streams dns-rebinding-protection
    done
}

@test "the server: what needs nothing special in the newer suite" {
    start_server
    each new /mcp server-initialize ping logging-set-level tools-list resources-list prompts-list \
        server-sse-multiple-streams dns-rebinding-protection server-session-lifecycle
}

@test "the server: what needs nothing special in 2026-07-28" {
    start_server
    local scenario
    for scenario in tools-list caching sep-2164-resource-not-found http-header-validation; do
        suite new --scenario "$scenario" --spec-version 2026-07-28
    done
}
