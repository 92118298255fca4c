# shellcheck shell=bash disable=SC2154 # status and stderr are set by bats
# A real registry on a free port of loopback, and images in it: start_registry FOLDER [AUTHORIZATION] [TLS]
# sets REGISTRY and REGISTRY_PID, which is among STARTED. AUTHORIZATION is what its settings have under "auth",
# TLS what they have under "tls".
STARTED=()
start_registry() {
    local folder=$1 authorization=${2:-} tls=${3:-}
    mkdir -p "$folder"
    {
        echo 'version: 0.1'
        echo "http: {addr: \"127.0.0.1:0\"${tls:+, tls: $tls}}"
        echo "storage: {filesystem: {rootdirectory: \"$folder/data\"}}"
        if [ -n "$authorization" ]; then
            echo "auth: $authorization"
        fi
    } >"$folder/config.yml"
    docker-registry serve "$folder/config.yml" >"$folder/log" 2>&1 3>&- &
    export REGISTRY_PID=$!
    STARTED+=("$!")
    within 20 grep -q 'listening on' "$folder/log"
    REGISTRY=$(sed -n 's/.*listening on \(127.0.0.1:[0-9]*\).*/\1/p' "$folder/log")
}

# The layout NAME of oci_images.py, in $BATS_FILE_TMPDIR/layouts.
make_layout() {
    local layout=$BATS_FILE_TMPDIR/layouts/$1
    [ -d "$layout" ] || python3 "$BATS_TEST_DIRNAME/oci_images.py" "$layout" "$1"
}

# push_image NAME [SKOPEO-OPTIONS…]: NAME of oci_images.py, as $REGISTRY/NAME:latest; with PUSH_BELOW in
# front of the name.
push_image() {
    local name=$1 layout=$BATS_FILE_TMPDIR/layouts/$1
    shift
    make_layout "$name"
    skopeo copy --quiet --all --dest-tls-verify=false "$@" "oci:$layout:latest" "docker://$REGISTRY/${PUSH_BELOW:-}$name:latest"
}

# What is in the store, without what is there to be resumed.
store_listing() {
    find "$MSB_HOME" ! -path '*/locks/*' ! -path '*/partial/*' ! -path '*/oci/*' -type f -printf '%P %s\n' | sort
}

# An image that cannot be had says why and leaves the store as it was: assert_not_pulled IMAGE PART
assert_not_pulled() {
    local before
    before=$(store_listing)
    run --separate-stderr msb pull "$REGISTRY/$1"
    assert_refused 125 "$2"
    assert_equal "$(store_listing)" "$before"
    run msb image inspect "$REGISTRY/$1"
    [ "$status" -ne 0 ]
}

# Changes one byte, whatever it was: spoil FILE OFFSET
spoil() {
    python3 -c '
import sys
with open(sys.argv[1], "r+b") as file:
    file.seek(int(sys.argv[2]))
    byte = file.read(1)[0]
    file.seek(int(sys.argv[2]))
    file.write(bytes([byte ^ 255]))' "$@"
}

# Where the registry keeps a blob: blob_file FOLDER DIGEST
blob_file() {
    local hex=${2#sha256:}
    echo "$1/data/docker/registry/v2/blobs/sha256/${hex:0:2}/$hex/data"
}
