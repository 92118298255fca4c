#!/usr/bin/env bats
# Tools for models, over pipes and over HTTP, with real sandboxes: jails where that is possible.
load helpers
load npm

choose_engine() {
    [ "$(id -u)" -ne 0 ] || export MSB_ENGINE=${MSB_ENGINE:-jail}
}

setup_file() {
    choose_engine
    msb prepare python node >&2
    msb stop --all >&2
    install_all "clients @modelcontextprotocol/sdk@1.32.2 @modelcontextprotocol/client@2.4.0" \
        "inspector @modelcontextprotocol/inspector@2.12.0" >"$BATS_FILE_TMPDIR/why"
}

setup() {
    choose_engine
}

teardown() {
    msb server stop 2>/dev/null || true
    msb stop --all >&2
}

# demos stdio|http PLACE: the chart demo with all versions of the clients from npm, at once
demos() {
    local version
    local -a running=()
    [ ! -s "$BATS_FILE_TMPDIR/why" ] || skip "$(cat "$BATS_FILE_TMPDIR/why")"
    for version in 1 2 2-auto; do
        node22 "$REPOSITORY/tests/integration/mcp_sdk.mjs" "$PACKAGES/clients" "$version" "$@" \
            >"$BATS_TEST_TMPDIR/$version" 2>&1 3>&- &
        running+=("$!")
    done
    wait "${running[@]}" || true
    for version in 1 2 2-auto; do
        assert_equal "$(cat "$BATS_TEST_TMPDIR/$version")" shown
    done
}

# tools CLASS…: their tests
tools() {
    cd "$REPOSITORY/tests/integration" || return
    timeout 240 python3 -W error::ResourceWarning -m unittest "${@/#/mcp_tools.}"
}

@test "what is offered" {
    tools Offer
}

@test "Python in sessions" {
    tools Python
}

@test "pictures that are too large" {
    tools Pictures
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
    assert_refused 2 "stdin is no pipe"
    silent() {
        sleep 0 | MSB_LOG_LEVEL=debug msb mcp | cat
    }
    run --separate-stderr silent
    assert_equal "$status$output" 0
    wrong() {
        echo '{"jsonrpc": "2.0", "id": 1' | msb mcp | cat
    }
    run --separate-stderr wrong
    assert_contains "$output" '"code":-32700'
}

@test "a chart with clients from npm, over stdio" {
    demos stdio "$MSB"
    assert_nothing_left
}

@test "a chart with clients from npm, over HTTP" {
    url=$(msb server start --dev --port 0 --detach)
    demos http "$url/mcp"
    msb server stop
    assert_nothing_left
}

# inspect PLACE…: a call by the Inspector, in both eras
inspect() {
    local era told
    [ ! -s "$BATS_FILE_TMPDIR/why" ] || skip "$(cat "$BATS_FILE_TMPDIR/why")"
    for era in legacy modern; do
        told=$(node22 "$PACKAGES/inspector/node_modules/.bin/mcp-inspector" --cli "$@" \
            --protocol-era "$era" --method tools/call --tool-name sandbox_run_python \
            --tool-arg "code=print(6*7)")
        assert_contains "$told" '"text": "42\n[exit code 0, '
    done
}

@test "the Inspector, over stdio and HTTP" {
    # It hands on no environment but what it is told to.
    inspect "$MSB" mcp -e "MSB_HOME=$MSB_HOME" -e "MSB_ENGINE=${MSB_ENGINE:-vm}"
    url=$(msb server start --dev --port 0 --detach)
    inspect "$url/mcp" --transport http
}
