#!/usr/bin/env bats
# Sessions of a real server with real sandboxes: jails where that is possible, since there are many.
load helpers

setup_file() {
    [ "$(id -u)" -ne 0 ] || export MSB_ENGINE=${MSB_ENGINE:-jail}
    msb prepare python node >&2
    msb stop --all >&2
}

# sessions MODULE.CLASS…: their tests
sessions() {
    cd "$REPOSITORY/tests/integration" || return
    [ "$(id -u)" -ne 0 ] || export MSB_ENGINE=${MSB_ENGINE:-jail}
    timeout 240 python3 -W error::ResourceWarning -m unittest "$@"
}

@test "calls of sessions and their turns" {
    sessions sessions.Calls sessions.Turns
}

@test "limits, eviction, expiry" {
    sessions sessions.Limits sessions.Ends sessions.Impatience
}

@test "sessions survive the server, orphans are ended" {
    sessions sessions.Restarts
}

@test "fifty sessions at once" {
    sessions sessions.Many
}

@test "volumes, settings, keys" {
    sessions sessions.Volumes sessions.Settings sessions.Keys
}

@test "sessions over REST" {
    sessions session_rest.Routes session_rest.Packages
}

@test "artifacts" {
    sessions session_rest.Artifacts session_rest.SignedArtifacts
}

@test "answers are as openapi.json says" {
    sessions session_openapi.OpenApi
}

@test "sessions leave nothing behind" {
    assert_nothing_left
}
