# shellcheck shell=bash
# A home without images and a registry to fill it from, for all tests of a file.
load registry

TEST_HOME=$MSB_HOME
export MSB_HOME=$BATS_FILE_TMPDIR/home

setup_file() {
    mkdir -p "$MSB_HOME"
    [ ! -d "$TEST_HOME/kernels" ] || cp -al "$TEST_HOME/kernels" "$MSB_HOME/"
    start_registry "$BATS_FILE_TMPDIR/registry"
    export REGISTRY REGISTRY_PID MSB_INSECURE_REGISTRIES=$REGISTRY
    unset OCI_REGISTRY_DOMAIN DOCKER_CONFIG http_proxy HTTP_PROXY
    export HOME=$BATS_FILE_TMPDIR
}

# What a test has started for itself.
teardown() {
    [ "${#STARTED[@]}" -eq 0 ] || kill "${STARTED[@]}"
    [ -n "$BATS_TEST_COMPLETED" ] || msb stop --all >&2
}

teardown_file() {
    kill "$REGISTRY_PID"
    msb stop --all >&2
}

pull() {
    push_image "$1"
    msb pull --quiet "$REGISTRY/$1"
}

run_in() {
    local image=$1
    shift
    msb exe "$REGISTRY/$image" --quiet "$@"
}
