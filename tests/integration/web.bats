#!/usr/bin/env bats
# What the server carries between its clients and a real sandbox: files, terminals, ports.
load helpers

setup_file() {
    msb prepare python node >&2
    msb stop --all >&2
    MSB_URL=$(msb server start --dev --port 0 --detach)
    MSB_SERVER=$(msb server status | sed -n 's/^process \([0-9]*\).*/\1/p')
    export MSB_URL MSB_SERVER
    start_box box
}

teardown_file() {
    msb server stop >&2 || true
    msb stop --all >&2
}

# web MODULE: its tests
web() {
    cd "$REPOSITORY/tests/integration" || return
    timeout 120 python3 -W error::ResourceWarning -m unittest "$1"
}

@test "files go in and out" {
    web web_files
}

@test "terminals over WebSocket, and broken rules of it" {
    web web_terminal
}

@test "ports inside through the server" {
    web web_proxy
}

@test "keys do not reach the sandbox" {
    msb server stop
    MSB_URL=$(msb server start --port 0 --detach)
    MSB_KEY=$(msb server keygen 2>/dev/null)
    export MSB_URL MSB_KEY
    web web_keys
}
