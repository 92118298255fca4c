#!/usr/bin/env bats
# Names that a sandbox connects to: the keeper looks them up on the host and decides, whatever
# isolates the sandbox.
load helpers

# A world of its own, with name server and web server: internet TEST
internet() {
    needs_root
    run timeout 150 unshare --net --mount \
        python3 "$REPOSITORY/tests/integration/internet.py" "$1"
    assert_equal "$output" ok
    assert_nothing_left
}

@test "public names are reached at their public addresses only" {
    internet public
}

@test "only names of the list are looked up" {
    internet list
}

@test "a name server that does not answer holds nothing up" {
    internet silent_names
}
