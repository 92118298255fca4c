#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2030,SC2031,SC2154 # variables meant for one test; stderr is set by bats
# Registries that misbehave, and what is sent to them: a server that does it on purpose.
load helpers
load registry

export MSB_HOME=$BATS_FILE_TMPDIR/home
LOG=$BATS_FILE_TMPDIR/log

setup_file() {
    mkdir -p "$MSB_HOME"
    make_layout plain
    make_layout large
    make_layout foreign
    unset OCI_REGISTRY_DOMAIN DOCKER_CONFIG SSL_CERT_FILE SSL_CERT_DIR http_proxy HTTP_PROXY https_proxy HTTPS_PROXY
    export HOME=$BATS_FILE_TMPDIR
}

# A new one for each test, which has been asked for nothing yet.
setup() {
    rm -f "$LOG" "$LOG.go"
    python3 "$BATS_TEST_DIRNAME/strange_registry.py" "$BATS_FILE_TMPDIR/layouts" "$LOG" >"$BATS_TEST_TMPDIR/address" 3>&- &
    STARTED+=("$!")
    within 20 test -s "$BATS_TEST_TMPDIR/address"
    REGISTRY=$(cat "$BATS_TEST_TMPDIR/address")
    export MSB_INSECURE_REGISTRIES=$REGISTRY
}

teardown() {
    [ "${#STARTED[@]}" -eq 0 ] || kill "${STARTED[@]}"
    rm -rf "$MSB_HOME" "$BATS_FILE_TMPDIR/.docker"
    mkdir "$MSB_HOME"
}

teardown_file() {
    :
}

# What docker keeps: docker_config JSON
docker_config() {
    mkdir -p "$HOME/.docker"
    printf '%s' "$1" >"$HOME/.docker/config.json"
}

know_robot() {
    docker_config "{\"auths\": {\"$REGISTRY\": {\"auth\": \"$(printf robot:secret | base64)\"}}}"
}

# Requests that have a header, or a part of a line: requests PART
requests() {
    grep -c -- "$1" "$LOG" || true
}

# A program that docker would ask for passwords: make_helper NAME ANSWER
make_helper() {
    mkdir -p "$BATS_TEST_TMPDIR/bin"
    printf '#!/bin/sh\necho "$1 $(cat)" >>"%s/asked"\n%s\n' "$BATS_TEST_TMPDIR" "$2" >"$BATS_TEST_TMPDIR/bin/docker-credential-$1"
    chmod +x "$BATS_TEST_TMPDIR/bin/docker-credential-$1"
    export PATH=$BATS_TEST_TMPDIR/bin:$PATH
}

large_part_is_there() {
    [ -n "$(find "$MSB_HOME" -path '*/partial/*' -size +10M)" ]
}

# Ends the pull of large while half of its layer is there: interrupt_pull SIGNAL [OPTIONS…]
interrupt_pull() {
    "$MSB" pull "${@:2}" "$REGISTRY/stalls/large" 2>"$BATS_TEST_TMPDIR/stderr" 3>&- &
    local pid=$!
    within 20 large_part_is_there
    kill "-$1" "$pid"
    wait "$pid"
}

# A certificate for localhost and 127.0.0.1 that an authority of our own has signed, in FOLDER.
make_certificates() {
    openssl req -x509 -newkey rsa:2048 -nodes -keyout "$1/authority.key" -out "$1/authority" -subj /CN=authority -days 2 2>/dev/null
    openssl req -newkey rsa:2048 -nodes -keyout "$1/key" -out "$1/request" -subj /CN=localhost 2>/dev/null
    openssl x509 -req -in "$1/request" -CA "$1/authority" -CAkey "$1/authority.key" -CAcreateserial -days 2 \
        -extfile <(echo subjectAltName=DNS:localhost,IP:127.0.0.1) -out "$1/certificate" 2>/dev/null
}

@test "a registry with TLS is believed when its authority is known" {
    make_certificates "$BATS_TEST_TMPDIR"
    start_registry "$BATS_TEST_TMPDIR/private" "" "{certificate: \"$BATS_TEST_TMPDIR/certificate\", key: \"$BATS_TEST_TMPDIR/key\"}"
    export MSB_INSECURE_REGISTRIES=''
    push_image plain
    assert_not_pulled plain "certificate"
    assert_contains "$stderr" SSL_CERT_FILE
    [[ "$stderr" != *insecure* ]]
    SSL_CERT_FILE=$BATS_TEST_TMPDIR/authority msb pull --quiet "$REGISTRY/plain"
}

@test "a password may have several lines, and none is an error" {
    local key=$'first line\nsecond line'
    htpasswd -Bbc "$BATS_TEST_TMPDIR/passwords" _json_key "$key" 2>/dev/null
    start_registry "$BATS_TEST_TMPDIR/private" "{htpasswd: {realm: tests, path: \"$BATS_TEST_TMPDIR/passwords\"}}"
    export MSB_INSECURE_REGISTRIES=$REGISTRY
    msb login "$REGISTRY" -u _json_key --password-stdin <<<"$key"
    run --separate-stderr msb login "$REGISTRY" -u _json_key --password-stdin </dev/null
    assert_refused 2 "a password"
    run --separate-stderr msb login "$REGISTRY" --password-stdin <<<x
    assert_refused 2 "--user"
}

@test "a password that is typed is not shown, and Ctrl-C leaves the terminal as it was" {
    run python3 "$BATS_TEST_DIRNAME/terminal.py" --when Password --type 'secret\x03' -- \
        sh -c "trap : INT; $MSB login $REGISTRY -u robot; echo status \$?; stty -a | grep -o ' echo '"
    assert_contains "$output" "status 130"
    assert_contains "$output" " echo "
    [[ "$output" != *secret* ]]
}

@test "a terminal shows the layers with speed and time left, others one line" {
    local shown="$BATS_TEST_TMPDIR/stderr"
    rm -f "$MSB_HOME"/images/partial/*
    run timeout 60 python3 "$BATS_TEST_DIRNAME/terminal.py" --when 's left, 1/2 layers ' --type '\x03' -- \
        "$MSB" pull "$REGISTRY/stalls/large"
    assert_equal "$status" 130
    grep -qE '[0-9] MB/s, [0-9]+ s left, 1/2 layers [0-9]+%' <<<"$output"
    "$MSB" pull "$REGISTRY/stalls/large" 2>"$shown" 3>&- &
    within 20 grep -q Pulling "$shown"
    kill -TERM $!
    wait $! || true
    assert_equal "$(grep -c 'Pulling' "$shown")" 2
    [ "$(grep -c 'left' "$shown")" -eq 0 ]
}

@test "a password does not follow a redirect to another host" {
    know_robot
    msb pull --quiet "$REGISTRY/redirects/large"
    [ "$(requests '"server": "other"')" -ge 2 ]
    assert_equal "$(grep '"server": "other"' "$LOG" | grep -c authorization)" 0
}

@test "another host that a redirect leads to cannot ask for the password" {
    know_robot
    assert_not_pulled redirects-to-asker/large "does not let us have"
    [ "$(requests '/asks/')" -ge 1 ]
    assert_equal "$(requests '"path": "/token"')" 0
}

@test "of several kinds of authorization, one that is known is taken" {
    know_robot
    msb pull --quiet "$REGISTRY/negotiates/plain"
}

@test "a registry that always wants another token is left" {
    assert_not_pulled asks-forever/plain "does not let us have"
    [ "$(requests '"path": "/token"')" -le 2 ]
}

@test "a server that ignores the range sends everything again" {
    msb pull --quiet "$REGISTRY/ignores-range/large"
    assert_equal "$(requests '"range"')" 1
}

@test "pieces that do not fit together are thrown away" {
    msb pull --quiet "$REGISTRY/wrong-range/large"
    assert_equal "$(requests '"range"')" 1
    assert_equal "$(ls "$MSB_HOME/images/partial")" ""
}

@test "a server that fails for a while is asked again" {
    msb pull --quiet "$REGISTRY/tired/plain"
    [ "$(requests blobs)" -ge 6 ]
}

@test "answers that cannot be are refused, each with its reason" {
    local case
    for case in "busy=too many requests" "endless=more than the expected" "nested=maximum parsing depth" "no-json=its manifest is no JSON" \
        "loops=redirects" "leaves-http=rotocol" "too-much=more than the expected"; do
        assert_not_pulled "${case%%=*}/plain" "${case#*=}" || {
            echo "$case" >&2
            return 1
        }
    done
}

@test "a manifest with another digest than the one asked for is refused" {
    local digest
    digest=sha256:$(printf '1%.0s' {1..64})
    run --separate-stderr msb pull "$REGISTRY/other/plain:latest@$digest"
    assert_refused 125 "what came as $digest has the digest"
}

@test "layers of an image for another architecture are not fetched" {
    assert_not_pulled normal/foreign "linux/riscv64"
    assert_equal "$(requests /blobs/)" 1
    assert_equal "$(find "$MSB_HOME/images/oci" -type f)" ""
}

@test "all formats are asked for, and the layers fetched once each" {
    msb pull --quiet "$REGISTRY/normal/large"
    local type
    for type in oci.image.index.v1 oci.image.manifest.v1 docker.distribution.manifest.list.v2 docker.distribution.manifest.v2; do
        grep '/manifests/' "$LOG" | grep -q "application/vnd.$type+json"
    done
    assert_equal "$(requests /blobs/)" 3
}

@test "Ctrl-C ends a pull at once, and the next one goes on from there" {
    run interrupt_pull INT
    assert_equal "$status" 130
    run msb image inspect "$REGISTRY/stalls/large"
    [ "$status" -ne 0 ]
    touch "$LOG.go"
    msb pull --quiet "$REGISTRY/stalls/large"
    assert_equal "$(requests '"range"')" 1
    assert_equal "$(ls "$MSB_HOME/images/partial")" ""
}

@test "a pull that was killed leaves something that the next one resumes" {
    run interrupt_pull KILL
    assert_equal "$status" 137
    touch "$LOG.go"
    msb pull --quiet "$REGISTRY/stalls/large"
    assert_equal "$(requests '"range"')" 1
}

@test "what an interrupted pull left and somebody changed is not used" {
    run interrupt_pull INT
    local part
    part=$(find "$MSB_HOME/images/partial" -size +10M)
    spoil "$part" 5000
    touch "$LOG.go"
    msb pull --quiet "$REGISTRY/stalls/large"
    msb image inspect "$REGISTRY/stalls/large" >/dev/null
}

@test "credential helpers of docker are asked" {
    make_helper tests 'echo "{\"Username\": \"robot\", \"Secret\": \"secret\"}"'
    docker_config '{"credsStore": "tests"}'
    msb pull --quiet "$REGISTRY/redirects/plain"
    assert_equal "$(sort -u "$BATS_TEST_TMPDIR/asked")" "get $REGISTRY"
}

@test "a helper for one registry comes before that for all" {
    make_helper all 'exit 1'
    make_helper one 'echo "{\"Username\": \"robot\", \"Secret\": \"secret\"}"'
    docker_config "{\"credsStore\": \"all\", \"credHelpers\": {\"$REGISTRY\": \"one\"}}"
    msb pull --quiet "$REGISTRY/redirects/plain"
}

@test "a helper that has nothing, is not there or talks nonsense is no password" {
    local helper
    make_helper nothing 'echo credentials not found; exit 1'
    make_helper nonsense 'echo "{\"Username\": [1]}"'
    for helper in nothing nonsense missing; do
        docker_config "{\"credsStore\": \"$helper\"}"
        assert_not_pulled redirects/plain "wants a name and a password"
    done
}

@test "a helper whose name is a path or more than a name is not run" {
    local name
    make_helper x "touch \"$BATS_TEST_TMPDIR/ran\""
    for name in ../bin/x 'x;y' 'x y' "$BATS_TEST_TMPDIR/bin/x"; do
        docker_config "{\"credsStore\": \"$name\"}"
        assert_not_pulled redirects/plain "credential helper"
    done
    [ ! -e "$BATS_TEST_TMPDIR/ran" ]
}

@test "damaged files of credentials are told" {
    docker_config '{"auths": '
    assert_not_pulled redirects/plain "config.json is damaged"
    docker_config '{"auths": {"'"$REGISTRY"'": {"auth": "no base64!"}}}'
    assert_not_pulled redirects/plain "wants a name and a password"
}
