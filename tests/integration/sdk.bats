#!/usr/bin/env bats
# The client libraries against a running server.
load helpers

setup() {
    export MSB_TEST_SHARED=$BATS_TEST_TMPDIR
    MSB_SERVER_URL=$(MSB_SESSION_VOLUME_ROOTS="[\"$BATS_TEST_TMPDIR\"]" \
        msb server start --dev --port 0 --detach)
    export MSB_SERVER_URL
    export PYTHONPATH=$REPOSITORY/sdk/python PYTHONDONTWRITEBYTECODE=1
}

teardown() {
    msb server stop >&2 || true
    msb stop --all >&2
}

assert_all_ended() {
    msb server stop
    assert_nothing_left
}

# build_c SOURCE: builds it as a user of the library would, and prints where
build_c() {
    local libraries
    libraries=$(dirname "$MSB")
    cc -Wall -Werror -I"$REPOSITORY/include" "$1" -o "$BATS_TEST_TMPDIR/program" -L"$libraries" \
        -Wl,-rpath,"$libraries" -lmsb
    echo "$BATS_TEST_TMPDIR/program"
}

@test "Python: sandboxes" {
    timeout 300 python3 "$REPOSITORY/tests/sdk/test_sandbox.py"
    assert_all_ended
}

@test "Python: sessions, the uses of the guides" {
    timeout 300 python3 "$REPOSITORY/tests/sdk/test_wrapper.py"
    assert_all_ended
}

@test "JavaScript: sandboxes" {
    timeout 300 node --test "$REPOSITORY/tests/sdk/sandbox.test.mjs"
    assert_all_ended
}

@test "JavaScript: sessions" {
    timeout 300 node --test "$REPOSITORY/tests/sdk/wrapper.test.mjs"
    assert_all_ended
}

@test "JavaScript: tools for agents, with the real framework" {
    local place=$REPOSITORY/build/npm/agents
    command -v npm >/dev/null || skip "npm is not installed"
    mkdir -p "$place"
    timeout 120 npm install --silent --no-audit --no-fund --install-links=false --prefix "$place" \
        @langchain/core "$REPOSITORY/sdk/js" >&2 || skip "npm's registry cannot be reached"
    cp "$REPOSITORY/tests/sdk/tools.test.mjs" "$place"
    timeout 300 node --preserve-symlinks --test "$place/tools.test.mjs"
    assert_all_ended
}

@test "C: all of the library" {
    timeout 300 "$(build_c "$REPOSITORY/tests/sdk/test_c.c")"
    assert_all_ended
}

@test "C: the example" {
    run timeout 60 "$(build_c "$REPOSITORY/examples/c/workflow.c")"
    assert_equal "$status" 0
    assert_equal "$output" $'42\nhello\nstep 0\nstep 1\nstep 2'
    assert_all_ended
}

@test "the examples" {
    cd "$BATS_TEST_TMPDIR"
    run timeout 120 "$REPOSITORY/examples/chart.py"
    assert_equal "$status" 0
    assert_contains "$output" "The first try failed: KeyError: 'area'"
    assert_equal "$(head -c 4 chart.png | tail -c 3)" PNG
    run timeout 120 "$REPOSITORY/examples/advanced.py"
    assert_equal "$status" 0
    assert_contains "$output" "12.57 - the same session: True"
    assert_contains "$output" "no room for another session"
    assert_all_ended
}
