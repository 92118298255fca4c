#!/usr/bin/env bats
# Files in and out of whole sandboxes, through their keepers. What each operation does is tried in
# test_agent_files.py.
load helpers

files() {
    timeout 60 python3 "$REPOSITORY/tests/integration/files.py" "$MSB_HOME" box "$1"
}

setup() {
    mkdir -p "$BATS_TEST_TMPDIR/shared"
    chown 1234:1234 "$BATS_TEST_TMPDIR/shared" || true
    start_box box -v "$BATS_TEST_TMPDIR/shared:/data"
}

@test "files come back whole" {
    files come_back_whole
    msb stop box
}

@test "the contents of files are not in the log" {
    files are_not_in_the_log
    msb stop box
}

@test "files are those of the default user" {
    files are_those_of_the_default_user
    msb stop box
}

@test "a client that goes away leaves no half-written file" {
    files are_left_alone_by_a_client_that_goes_away
    msb stop box
}

@test "files cannot be had while the sandbox is paused" {
    files cannot_be_had_while_paused
    msb stop box
}

@test "files written on a volume are there on the host" {
    needs_root
    files on_a_volume_are_there_on_the_host
    cd "$BATS_TEST_TMPDIR"/shared/folder
    assert_equal "$(cat file)" two
    assert_equal "$(stat -c '%u %a' file)" "1234 640"
    assert_equal "$(ls -A)" file
    msb stop box
}

@test "large files on a volume come back whole" {
    needs_root
    files large_ones_on_a_volume_come_back_whole
    assert_equal "$(stat -c %s "$BATS_TEST_TMPDIR/shared/large")" 3000001
    msb stop box
}

@test "files are told as they change" {
    files are_told_as_they_change
    msb stop box
}

@test "files that a run made are told" {
    files that_a_run_made_are_told
    msb stop box
}
