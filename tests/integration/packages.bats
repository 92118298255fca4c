#!/usr/bin/env bats
# Packages installed in running sandboxes. What pip and npm print, and what it means, is tried in
# test_packages.c.
# shellcheck disable=SC2154 # stderr is set by bats
load helpers

@test "packages come from a folder, and each has its own result" {
    python3 "$REPOSITORY/tests/integration/package_mirror.py" "$BATS_TEST_TMPDIR"
    start_box box -v "$BATS_TEST_TMPDIR:/mirror:ro" \
        --env PIP_NO_INDEX=1 --env PIP_FIND_LINKS=/mirror
    run --separate-stderr msb packages box --json numpy 'msbprobe>=1' msbnosuch
    [ "$status" -eq 1 ]
    python3 - "$output" <<'END'
import json, sys
found = {package["name"]: package for package in json.loads(sys.argv[1])}
assert found["numpy"]["state"] == "present" and found["numpy"]["version"], found
assert found["msbprobe"]["state"] == "installed" and found["msbprobe"]["version"] == "1.2", found
assert found["msbnosuch"]["state"] == "not_found" and found["msbnosuch"]["message"], found
END
    [[ "$stderr" == *"Successfully installed msbprobe-1.2"* ]]
    run msb exec box -c 'import msbprobe; print(msbprobe.__version__)'
    [ "$output" = "1.2" ]
    msb stop box
}

@test "names that are none and sandboxes that are not there are refused" {
    run msb packages box
    [ "$status" -eq 2 ]
    run msb packages nosuch numpy
    [ "$status" -eq 125 ]
    [[ "$output" == *"no running sandbox"* ]]
    start_box box
    run msb packages box -- --index-url=http://example.com
    [ "$status" -eq 2 ]
    run msb packages box 'two words'
    [ "$status" -eq 2 ]
    run msb packages box --language cobol x
    [ "$status" -eq 2 ]
    [[ "$output" == *"python and node"* ]]
    msb stop box
}

# Serves the packages on the host's loopback; the port is in $port.
serve_packages() {
    python3 "$REPOSITORY/tests/integration/package_mirror.py" "$BATS_TEST_TMPDIR" \
        "$BATS_TEST_TMPDIR/port" 3>&- &
    mirror=$!
    local tries=50
    until [ -s "$BATS_TEST_TMPDIR/port" ] || [ $((tries -= 1)) -eq 0 ]; do sleep 0.1; done
    port=$(cat "$BATS_TEST_TMPDIR/port")
}

@test "packages of Python come from an index on the network" {
    serve_packages
    start_box box --network "host.internal:$port" \
        --env "PIP_INDEX_URL=http://host.internal:$port/simple" --env PIP_TRUSTED_HOST=host.internal
    run --separate-stderr msb packages box --json msbother
    kill "$mirror"
    [ "$status" -eq 0 ]
    [[ "$output" == *'"state": "installed"'*'"version": "0.1"'* ]]
    run --separate-stderr msb packages box --json msbprobe
    [ "$status" -eq 1 ]
    [[ "$output" == *'"state": "offline"'* ]]
    [[ "$stderr" == *"--network"* ]]
    msb stop box
}

@test "packages of Node come from a registry on the network" {
    serve_packages
    msb exe node --detach --name box --network "host.internal:$port" \
        --env "NPM_CONFIG_REGISTRY=http://host.internal:$port" -- true </dev/null
    run --separate-stderr msb packages box --json msbprobe msbnosuch
    kill "$mirror"
    [ "$status" -eq 1 ]
    python3 - "$output" <<'END'
import json, sys
found = {package["name"]: package for package in json.loads(sys.argv[1])}
assert found["msbprobe"]["state"] == "installed" and found["msbprobe"]["version"] == "1.2", found
assert found["msbnosuch"]["state"] == "not_found", found
END
    run msb exec box -l node -c 'require("msbprobe").version'
    [ "$output" = "'1.2'" ]
    msb stop box
}
