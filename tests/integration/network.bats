#!/usr/bin/env bats
# Ways in and out of whole sandboxes: published ports and the proxy. Everything happens on the
# host's loopback. What the tunnels of the agent do is tried in test_agent_tunnel.py, what the
# policy allows in test_egress.c, names in names.bats.
load helpers

setup_file() {
    msb prepare python >&2
    msb stop --all >&2
    mkdir -p "$BATS_FILE_TMPDIR/served"
    echo "of the host" >"$BATS_FILE_TMPDIR/served/page"
    local log=$BATS_FILE_TMPDIR/server.log
    # Python's own lets five wait; the kernel throws away the rest of a hundred, sometimes for good.
    python3 -u -c '
import functools, http.server, sys
class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 512
handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=sys.argv[1])
server = Server(("127.0.0.1", 0), handler)
print("port", server.server_port)
server.serve_forever()' "$BATS_FILE_TMPDIR/served" >"$log" 2>&1 3>&- &
    echo $! >"$BATS_FILE_TMPDIR/server.pid"
    within 10 grep -q "port [0-9]" "$log"
    SERVED=$(sed -n 's/^port \([0-9]*\)$/\1/p' "$log")
    export SERVED
}

teardown_file() {
    kill "$(cat "$BATS_FILE_TMPDIR/server.pid")"
    msb stop --all >&2
}

# A sandbox named box with the server of network.py behind a published port.
start_server() {
    start_box box -p 0:7000 -p 0:7999 -v "$REPOSITORY/tests/integration:/tests:ro"
    msb exec box -- sh -c 'nohup python3 /tests/network.py serve 7000 >/dev/null 2>&1 &'
    outside server_is_there
}

outside() {
    run timeout 120 python3 "$REPOSITORY/tests/integration/network.py" "$MSB_HOME" box "$1"
    assert_equal "$output" ok
}

# Fetches from inside: fetch URL [OPTIONS OF CURL…]
fetch() {
    msb exec box -e no_proxy= -e NO_PROXY= -- curl --silent --show-error --max-time 30 "$@"
}

@test "published ports lead inside" {
    start_server
    outside many_at_once
    outside bytes_arrive_unchanged_and_are_counted
    outside one_that_never_reads_stops_its_sender_only
    outside breaks_are_passed_on
    outside a_paused_sandbox_refuses
    run msb ps
    [[ $output =~ [0-9]+:7000\ [0-9]+:7999 ]]
    msb stop box
    assert_nothing_left
}

@test "a port that is taken is named, and nothing is left" {
    run --separate-stderr msb exe python --name box -p "$SERVED:80" -- true
    assert_refused 125 "port $SERVED of 127.0.0.1 cannot be published"
    assert_nothing_left
}

@test "options for the network are checked first" {
    run --separate-stderr msb exe python -p 80 -- true
    assert_refused 2 '"80" cannot be understood'
    run --separate-stderr msb exe python --network "http://a.org" -- true
    assert_refused 2 "nothing that the network can be opened to"
    run --separate-stderr msb exe python --network 10.0.0.1 -- true
    assert_refused 2 "not of the public internet"
}

@test "a sandbox is closed unless it is opened" {
    run msb exe python -- sh -c 'env | grep -ci proxy; grep -c :0C38 /proc/net/tcp'
    assert_equal "$output" $'0\n0'
}

@test "a sandbox reaches what is allowed and nothing else, and is told why" {
    start_box box --network "127.0.0.1:$SERVED,example.com"
    run fetch "http://127.0.0.1:$SERVED/page"
    assert_equal "$output" "of the host"
    run fetch --proxytunnel "http://127.0.0.1:$SERVED/page"
    assert_equal "$output" "of the host"
    run msb exec box -c "import os; os.environ['no_proxy'] = os.environ['NO_PROXY'] = ''
import urllib.request; urllib.request.urlopen('http://127.0.0.1:$SERVED/page').read()"
    assert_equal "$output" "b'of the host\n'"

    run fetch --write-out '%{http_code}' "http://127.0.0.1:1/"
    assert_contains "$output" "this sandbox may not connect to 127.0.0.1:1"
    assert_contains "$output" "--network 127.0.0.1:1"
    assert_contains "$output" 403
    run fetch "http://localhost:$SERVED/"
    assert_contains "$output" "may not connect to localhost:$SERVED"
    run fetch --include --proxytunnel "http://example.org/"
    assert_contains "$output" "403 this sandbox may not connect to example.org:80"
    run grep -c "egress refused: status=403" "$(state_folder box)/keeper.log"
    assert_equal "$output" 3
    msb stop box
    assert_nothing_left
}

@test "no way of writing an address leads from public to the host" {
    local address
    start_box box --network public
    for address in 127.0.0.1 localhost 0x7f.1 2130706433 0 "[::1]" "[::ffff:127.0.0.1]" \
        127.0.0.1. "$(hostname)" $(hostname -I | tr ' ' '\n' | grep -v :); do
        run fetch --proxytunnel --include --globoff "http://$address:$SERVED/page"
        [[ $output == *" 403 "* || $output == *" 502 cannot find"* ]] || {
            echo "$address: $output" >&2
            return 1
        }
    done
    msb stop box
}

@test "many connections leave at once" {
    start_box box --network "127.0.0.1:$SERVED"
    run msb exec box -e no_proxy= -e NO_PROXY= -- python3 -c "
import concurrent.futures, urllib.request
def fetch(_):
    return urllib.request.urlopen('http://127.0.0.1:$SERVED/page').read()
with concurrent.futures.ThreadPoolExecutor(100) as pool:
    print(set(pool.map(fetch, range(300))))"
    assert_equal "$output" "{b'of the host\\n'}"
    msb stop box
}

@test "requests that are never finished do not close the way out" {
    start_box box --network "127.0.0.1:$SERVED"
    run msb exec box -e no_proxy= -e NO_PROXY= -- python3 -c "
import socket, urllib.request
half = [socket.create_connection(('127.0.0.1', 3128)) for _ in range(300)]
for connection in half:
    connection.sendall(b'GET http://')
print(urllib.request.urlopen('http://127.0.0.1:$SERVED/page', timeout=60).read())"
    assert_equal "$output" "b'of the host\\n'"
    msb stop box
}

@test "waiting for connections is no use of a sandbox" {
    start_box box --network public
    assert_equal "$(status_of box operations)" 0
    msb stop box
    start_box box --network public --idle 1
    within 20 nothing_left
}

@test "pip installs from an index that is allowed" {
    mkdir -p "$BATS_FILE_TMPDIR/served/simple/tiny"
    python3 - "$BATS_FILE_TMPDIR/served/simple/tiny" <<'EOF'
import sys, zipfile
name = "tiny-1.0-py3-none-any.whl"
with zipfile.ZipFile(sys.argv[1] + "/" + name, "w") as wheel:
    wheel.writestr("tiny.py", "answer = 42\n")
    wheel.writestr("tiny-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
    wheel.writestr("tiny-1.0.dist-info/WHEEL",
                   "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    wheel.writestr("tiny-1.0.dist-info/RECORD", "")
open(sys.argv[1] + "/index.html", "w").write('<a href="%s">%s</a>' % (name, name))
EOF
    run --separate-stderr msb exe python --network "localhost:$SERVED" -e no_proxy= -e NO_PROXY= -- \
        sh -c "pip install --quiet --disable-pip-version-check --target /tmp/t --trusted-host \
        localhost --index-url http://localhost:$SERVED/simple tiny &&
        PYTHONPATH=/tmp/t python3 -c 'import tiny; print(tiny.answer)'"
    assert_equal "$output" 42
}
