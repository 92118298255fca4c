#!/usr/bin/env bats
# The client libraries against a running server.
load helpers

setup() {
    MSB_SERVER_URL=$(msb server start --dev --port 0 --detach)
    export MSB_SERVER_URL
}

teardown() {
    msb server stop >&2 || true
    msb stop --all >&2
}

@test "the Python package" {
    PYTHONPATH=$REPOSITORY/sdk/python PYTHONDONTWRITEBYTECODE=1 \
        timeout 300 python3 "$REPOSITORY/tests/sdk/test_sandbox.py"
    msb server stop
    assert_nothing_left
}

@test "the JavaScript package" {
    timeout 300 node --test "$REPOSITORY/tests/sdk/"
    msb server stop
    assert_nothing_left
}
