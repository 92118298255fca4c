#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031 # every test has a url of its own
# The server with real sandboxes.
load helpers

setup() {
    url=$(msb server start --dev --port 0 --detach)
}

teardown() {
    msb server stop >&2 || true
    msb stop --all >&2
}

# call METHOD PARAMS: the answer
call() {
    curl --silent --max-time 60 -H 'Content-Type: application/json' "$url/api/v1/rpc" \
        --data-binary "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"$1\",\"params\":$2}"
}

# value_of PYTHON-EXPRESSION METHOD PARAMS: of the answer `a`
value_of() {
    call "$2" "$3" | python3 -c 'import json, sys
a = json.load(sys.stdin)
try:
    print(eval(sys.argv[1]))
except Exception:
    print(a)' "$1"
}

start() {
    value_of 'a["result"]' sandbox.start \
        "{\"sandbox\":\"$1\",\"namespace\":\"default\",\"config\":{\"image\":\"microsandbox/python\",\"memory\":1024}}"
}

# run_code NAME CODE: what it printed
run_code() {
    value_of '"\n".join(l["text"] for l in a["result"]["output"])' sandbox.repl.run \
        "{\"sandbox\":\"$1\",\"language\":\"python\",\"code\":\"$2\"}"
}

server_process() {
    msb server status | sed -n 's/^process \([0-9]*\).*/\1/p'
}

is_empty_folder() {
    [ "$(value_of 'len(a["result"]["entries"])' sandbox.file.list "$1")" = 0 ]
}

@test "a sandbox is forked, within its namespace" {
    start first
    run_code first "x = 41"
    assert_equal "$(value_of 'a["result"]["sandbox"], a["result"]["memory"]' sandbox.fork '{"sandbox":"first","name":"second"}')" \
        "('second', True)"
    assert_equal "$(run_code second "print(x + 1)")" 42
    assert_equal "$(value_of 'a["error"]["code"]' sandbox.fork '{"sandbox":"first","name":"second"}')" -32005
    msb snapshot first --as shot >&2
    assert_contains "$(call sandbox.start '{"sandbox":"later","config":{"snapshot":"shot"}}')" "later started"
    assert_equal "$(run_code later "print(x + 2)")" 43
    call sandbox.stop '{"sandbox":"later"}' >&2
    msb snapshot --remove shot >&2
    assert_contains "$(call sandbox.start '{"sandbox":"later","config":{"snapshot":"shot"}}')" "no snapshot named shot"
    assert_contains "$(call sandbox.start '{"sandbox":"later","config":{"snapshot":"shot","memory":512}}')" "settings of the snapshot"
    assert_contains "$(call sandbox.start '{"sandbox":"later","config":{"snapshot":"../../x"}}')" "cannot be used"
    assert_equal "$(value_of 'a["error"]["code"]' sandbox.fork '{"sandbox":"none","name":"third"}')" -32004
    assert_equal "$(value_of 'a["error"]["code"]' sandbox.fork '{"sandbox":"first","name":"../third"}')" -32602
    assert_equal "$(value_of 'a["error"]["code"]' sandbox.fork '{"sandbox":"first"}')" -32602
    assert_equal "$(value_of 'a["error"]["code"]' sandbox.fork '{"sandbox":"first","namespace":"other","name":"third"}')" -32004
    assert_equal "$(value_of 'sorted(s["name"] for s in a["result"]["sandboxes"])' sandbox.list '{}')" "['first', 'second']"
}

@test "start, run, command, metrics, files, stop" {
    assert_equal "$(start box)" "Sandbox box started successfully"
    assert_equal "$(start box)" "Sandbox box started successfully"
    assert_equal "$(run_code box 'x = 41')" ""
    assert_equal "$(run_code box 'print(1)\nx + 1')" $'1\n42'
    assert_equal "$(value_of 'a["result"]["status"]' sandbox.repl.run \
        '{"sandbox":"box","language":"python","code":"1/0"}')" error
    assert_equal "$(value_of '[a["result"][k] for k in ("exit_code", "success", "output")]' \
        sandbox.command.run '{"sandbox":"box","command":"sh","args":["-c","echo out; exit 3"]}')" \
        "[3, False, [{'stream': 'stdout', 'text': 'out'}]]"
    assert_equal "$(value_of 'a["error"]["data"]["code"]' sandbox.command.run \
        '{"sandbox":"box","command":"no-such-program"}')" not_found
    assert_equal "$(value_of 'a["error"]["data"]["code"]' sandbox.command.run \
        '{"sandbox":"box","command":"sleep","args":["60"],"timeout":1}')" timeout
    assert_equal "$(value_of '[(s["name"], s["running"], s["memory_usage"] > 0) for s in a["result"]["sandboxes"]]' \
        sandbox.metrics.get '{"namespace":"*","sandbox":null}')" "[('box', True, True)]"
    call sandbox.file.write '{"sandbox":"box","path":"made/here.bin","content":"/wA=","encoding":"base64"}'
    assert_equal "$(value_of '(a["result"]["content"], a["result"]["encoding"])' sandbox.file.read \
        '{"sandbox":"box","path":"made/here.bin"}')" "('/wA=', 'base64')"
    call sandbox.file.remove '{"sandbox":"box","path":"made/here.bin"}'
    is_empty_folder '{"sandbox":"box","path":"made"}'
    assert_equal "$(value_of 'a["result"]' sandbox.stop '{"sandbox":"box"}')" \
        "Sandbox box stopped successfully"
    assert_equal "$(value_of 'a["error"]["code"]' sandbox.stop '{"sandbox":"box"}')" -32004
    [ ! -e "$(state_folder box)" ]
}

@test "output that is no UTF-8 is made valid, and says so" {
    start box
    assert_equal "$(value_of '(a["result"]["output"], a["result"]["invalid_utf8"])' sandbox.command.run \
        '{"sandbox":"box","command":"printf","args":["a\\377b"]}')" \
        "([{'stream': 'stdout', 'text': 'a�b'}], True)"
}

@test "output beyond the limit is counted, and a stream has all of it" {
    start box
    assert_equal "$(value_of 'len(a["result"]["output"]), a["result"]["output_bytes"]' sandbox.command.run \
        '{"sandbox":"box","command":"sh","args":["-c","yes | head -c 6000000"]}')" "(524288, 6000000)"
    call sandbox.repl.stream \
        '{"sandbox":"box","language":"python","code":"for i in range(600): print(\"y\" * 9999)"}' |
        python3 -c 'import json, sys
print(sum(len(json.loads(l[6:]).get("text", "")) for l in sys.stdin if l.startswith("data: ")))' >"$BATS_TEST_TMPDIR/sum"
    assert_equal "$(cat "$BATS_TEST_TMPDIR/sum")" 6000000
}

@test "several starts of one name make one sandbox" {
    local i
    for i in 1 2 3 4 5; do
        start box >"$BATS_TEST_TMPDIR/$i" &
    done
    wait
    for i in 1 2 3 4 5; do
        assert_equal "$(cat "$BATS_TEST_TMPDIR/$i")" "Sandbox box started successfully"
    done
    assert_equal "$(value_of 'len(a["result"]["sandboxes"])' sandbox.list '{}')" 1
}

@test "a paused sandbox refuses calls until it is resumed" {
    start box
    call sandbox.pause '{"sandbox":"box"}'
    assert_contains "$(call sandbox.repl.run '{"sandbox":"box","language":"python","code":"1"}')" \
        "paused"
    call sandbox.resume '{"sandbox":"box"}'
    assert_equal "$(run_code box 'print(7)')" 7
}

@test "a stream tells what is printed as it is printed" {
    start box
    run call sandbox.repl.stream '{"sandbox":"box","language":"python","code":"print(1)\n2"}'
    assert_contains "$output" $'event: output\ndata: {"stream":"stdout","text":"1\\n"}'
    assert_contains "$output" $'event: result\n'
    assert_contains "$output" '"status":"success"'
}

@test "a killed server is replaced without losing a sandbox or a variable" {
    start box
    run_code box 'x = 5'
    local killed
    killed=$(server_process)
    kill -9 "$killed"
    within 10 is_gone "$killed"
    url=$(msb server start --dev --port 0 --detach)
    assert_equal "$(run_code box 'x')" 5
    assert_equal "$(value_of '[s["name"] for s in a["result"]["sandboxes"]]' sandbox.list '{}')" \
        "['box']"
}

@test "a request that is dropped cancels its work" {
    start box
    curl --silent --max-time 2 -H 'Content-Type: application/json' "$url/api/v1/rpc" --data-binary \
        '{"jsonrpc":"2.0","method":"sandbox.command.run","params":{"sandbox":"box","command":"sleep","args":["1000"]}}' ||
        true
    sleeps_are_gone() {
        [ "$(value_of 'a["result"]["exit_code"]' sandbox.command.run \
            '{"sandbox":"box","command":"pgrep","args":["-x","sleep"]}')" = 1 ]
    }
    within 10 sleeps_are_gone
}

@test "a stream that nobody reads holds its code back, fills no memory, and ends with its client" {
    msb server stop
    # Built with sanitizers, it would keep what it has freed.
    url=$(ASAN_OPTIONS=quarantine_size_mb=1 msb server start --dev --port 0 --detach)
    start box
    local memory
    memory() {
        sed -n 's/^VmHWM:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$(server_process)/status"
    }
    memory=$(memory)
    python3 "$REPOSITORY/tests/integration/unread_stream.py" "$url" box
    assert_equal "$(run_code box 'print(7)')" 7
    [ $(($(memory) - memory)) -lt 20000 ]
}

@test "a keeper that does not answer is stopped all the same" {
    start box
    kill -STOP "$(status_of box keeper_pid)"
    assert_equal "$(value_of 'a["result"]["sandboxes"]' sandbox.list '{}')" \
        "[{'namespace': 'default', 'name': 'box', 'state': 'unresponsive'}]"
    assert_equal "$(value_of 'a["result"]' sandbox.stop '{"sandbox":"box"}')" \
        "Sandbox box stopped successfully"
    assert_equal "$(start box)" "Sandbox box started successfully"
}

@test "sandboxes of the command line and of the server are the same" {
    start_box cli
    assert_equal "$(run_code cli 'print(3)')" 3
    msb stop cli
    assert_equal "$(value_of 'a["error"]["code"]' sandbox.repl.run \
        '{"sandbox":"cli","language":"python","code":"1"}')" -32004
}

@test "the examples do the whole workflow" {
    local example
    for example in "$REPOSITORY"/examples/workflow.*; do
        run env MSB_SERVER_URL="$url" timeout 60 "$example"
        assert_equal "$status" 0
        assert_contains "$output" $'started successfully\n42\nhello\nSandbox '
    done
}

@test "the server ends in peace and leaves nothing but what it is asked to" {
    start box
    msb server stop
    run -125 msb server status
    assert_equal "$(msb exec box -- echo alive)" alive
    msb stop box
    assert_nothing_left
}
