#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031 # every test has a url of its own
# Running a server: settings of a start, restarts, what hangs or dies, figures, logs.
load helpers

setup() {
    serve
}

teardown() {
    msb server stop >&2 || true
    msb stop --all >&2
}

# serve [OPTIONS…]: a server of this test
serve() {
    MSB_SERVER_URL=$(msb server start --dev --port 0 --detach "$@")
    export MSB_SERVER_URL
}

# client CODE: Python with a client `c`; `name` of an error is printed
client() {
    PYTHONPATH="$REPOSITORY/tests/integration" timeout 90 python3 -c '
import sys
import rpc_client
with rpc_client.Client() as c:
    try:
        exec(sys.argv[1])
    except rpc_client.Failed as error:
        print(error.name)' "$1"
}

# start NAME [CONFIG MEMBERS]
start() {
    client "print(c.call('sandbox.start', sandbox='$1', config={'image': 'microsandbox/python', ${2:-}}))"
}

server_process() {
    msb server status | sed -n 's/^process \([0-9]*\).*/\1/p'
}

@test "a sandbox is what its settings say" {
    start box "'envs': ['A=b c'], 'workdir': '/tmp', 'user': 'root', 'processes': 200, 'open_files': 300, 'cpus': 1, 'memory': 512"
    assert_equal "$(client "print(c.run('box', 'import os; print(os.environ[\"A\"], os.getcwd())'))")" \
        "b c /tmp"
    assert_equal "$(client "print(c.call('sandbox.command.run', sandbox='box', command='sh', args=['-c', 'echo \$(id -u) \$(ulimit -n) \$(pwd)'])['output'][0]['text'])")" "0 300 /tmp"
    assert_equal "$(client "print([(s['engine'], s['memory_mb']) for s in c.call('sandbox.list')['sandboxes']])")" \
        "[('$ENGINE', 512)]"
    assert_equal "$(client "print([s['engine'] for s in c.call('sandbox.metrics.get')['sandboxes']])")" \
        "['$ENGINE']"
}

@test "a request is told where its time went when it asks" {
    local body='{"jsonrpc":"2.0","id":1,"method":"METHOD","params":{"sandbox":"box",PARAMS}}'
    timings() {
        local json=${body/METHOD/$1}
        curl -s -D - -o /dev/null -H 'Content-Type: application/json' "${@:3}" \
            -d "${json/PARAMS/$2}" "$MSB_SERVER_URL/api/v1/rpc" | tr -d '\r' |
            sed -nE 's/^Server-Timing: ([a-z-]+);dur=[0-9]+\.[0-9]+$/\1/p' | tr '\n' ' '
    }
    assert_equal "$(timings sandbox.start '"config":{"image":"python"}' -H 'X-Timing: 1')" \
        "launcher name disks-and-ports machine event-loop settings-and-log adoption total "
    assert_equal "$(timings sandbox.repl.run '"code":"1","language":"python"' -H 'X-Timing: 1')" \
        "inside total "
    assert_equal "$(timings sandbox.repl.run '"code":"1","language":"python"')" ""
}

@test "a sandbox ends when its time is over" {
    start short "'lifetime': 1"
    start idle "'idle_timeout': 1"
    are_gone() {
        [ "$(client "print(len(c.call('sandbox.list')['sandboxes']))")" = 0 ]
    }
    within 20 are_gone
}

@test "an engine is chosen by the client where the server allows it" {
    needs_root
    assert_equal "$(start box "'engine': '$([ "$ENGINE" = vm ] && echo jail || echo vm)'")" denied
    msb server stop
    serve --engine vm,jail
    assert_equal "$(start jailed "'engine': 'jail'")" "Sandbox jailed started successfully"
    assert_equal "$(client "print([s['engine'] for s in c.call('sandbox.list')['sandboxes']])")" "['jail']"
}

@test "folders are shared that the server allows, and no others" {
    needs_root
    msb server stop
    mkdir -p "$BATS_TEST_TMPDIR/shared/one" "$BATS_TEST_TMPDIR/other"
    echo hello >"$BATS_TEST_TMPDIR/shared/one/file"
    serve --allow-volumes "$BATS_TEST_TMPDIR/shared"
    start box "'volumes': ['$BATS_TEST_TMPDIR/shared/one:/data:ro']"
    assert_equal "$(client "print(c.run('box', 'print(open(\"/data/file\").read())'))")" "hello"
    assert_equal "$(start other "'volumes': ['$BATS_TEST_TMPDIR/other:/data']")" denied
}

@test "killed with calls under way, again and again, a server loses and repeats nothing" {
    start box
    run env PYTHONPATH="$REPOSITORY/tests/integration" timeout 150 \
        python3 "$REPOSITORY/tests/integration/restart_traffic.py" "$MSB" box
    assert_equal "$status" 0
    assert_contains "$output" "none lost, none twice"
}

@test "calls to a keeper that hangs fail, and others go on" {
    start hung
    start box
    local keeper
    keeper=$(status_of hung keeper_pid)
    client "print(c.run('hung', '1'))"
    kill -STOP "$keeper"
    client "print(c.run('hung', '1'))" >"$BATS_TEST_TMPDIR/answer" &
    assert_equal "$(client "print(c.run('box', '2'))")" 2
    wait
    kill -CONT "$keeper"
    assert_equal "$(cat "$BATS_TEST_TMPDIR/answer")" unavailable
    assert_equal "$(client "print(c.run('hung', '3'))")" 3
}

@test "a launcher that died is replaced" {
    kill -9 "$(pgrep -P "$(server_process)")"
    assert_equal "$(start box)" "Sandbox box started successfully"
    assert_contains "$(msb server log)" "the launcher has ended"
}

@test "folders that are locked hold back those who need them, and nobody else" {
    start box
    python3 -c 'import fcntl, sys
file = open(sys.argv[1], "a")
fcntl.flock(file, fcntl.LOCK_EX)
print(flush=True)
sys.stdin.read()' "$MSB_HOME/sandboxes/.lock" < <(sleep 30) >"$BATS_TEST_TMPDIR/locked" &
    local holder=$!
    is_locked() {
        [ -s "$BATS_TEST_TMPDIR/locked" ]
    }
    within 10 is_locked
    client "print(c.call('sandbox.list'))" >"$BATS_TEST_TMPDIR/answer" &
    local asking=$!
    assert_equal "$(client "print(c.run('box', '5'))")" 5
    wait "$asking"
    assert_equal "$(cat "$BATS_TEST_TMPDIR/answer")" timeout
    kill "$holder"
    wait "$holder" || true
    assert_equal "$(client "print(len(c.call('sandbox.list')['sandboxes']))")" 1
}

@test "figures tell of sandboxes and starts in valid form" {
    start box
    client "print(c.call('sandbox.pause', sandbox='box'))"
    start other
    assert_equal "$(client "import prometheus
families = prometheus.parse(c.get('/metrics'))
for name in ('msb_sandboxes', 'msb_sandbox_starts_total'):
    print(sorted((tuple(labels.values()), value) for _, labels, value in families[name]['samples']))
print(families['msb_sandbox_start_duration_seconds']['samples'][-1][2])")" \
        "[(('default', '$ENGINE', 'paused'), 1.0), (('default', '$ENGINE', 'running'), 1.0)]
[(('default',), 2.0)]
2.0"
}

@test "the log has no code and no output" {
    start box "'envs': ['WORD=hush']"
    client "print(c.run('box', 'print(\"hu\" + \"sh\")'))
c.call('sandbox.repl.stream', sandbox='box', language='python', code='hush')" || true
    assert_contains "$(client "print(c.call('sandbox.command.run', sandbox='box', command='echo', args=['hush'])['output'])")" hush
    msb server log --tail 1000 >"$BATS_TEST_TMPDIR/log"
    [ "$(grep -c sandbox.repl "$BATS_TEST_TMPDIR/log")" -ge 2 ]
    run grep hush "$BATS_TEST_TMPDIR/log"
    assert_equal "$status" 1
}

@test "the status lists what sandboxes use" {
    start box
    client "print(c.run('box', '1'))"
    run msb server status
    assert_contains "$output" "asks for no keys"
    assert_contains "$output" "NAME  NAMESPACE  ENGINE"
    run msb server status box --json
    assert_equal "$(python3 -c 'import json, sys
a = json.loads(sys.argv[1])
print(a["url"], [(s["name"], s["running"], s["memory_usage"] > 0) for s in a["sandboxes"]])' "$output")" \
        "$MSB_SERVER_URL [('box', True, True)]"
    run -125 msb server status nobody
    assert_contains "$output" "there is no running sandbox named nobody"
    run msb server status --namespace other --json
    assert_contains "$output" '"sandboxes": []'
}
