#!/usr/bin/env bats
# Packages installed in running sandboxes. What pip and npm print, and what it means, is tried in
# test_packages.c.
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
