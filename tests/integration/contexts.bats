#!/usr/bin/env bats
# Contexts of whole sandboxes, through their keepers. What each operation does is tried in
# test_contexts.py.
load helpers

contexts() {
    timeout 60 python3 "$REPOSITORY/tests/integration/contexts.py" "$MSB_HOME" "$@"
}

@test "contexts of clones are no twins" {
    start_box one
    start_box two
    contexts are_no_twins one two
    msb stop one two
}

@test "a new context has libraries at hand, and the sandbox's user and folder" {
    start_box box
    contexts are_warm box
    msb stop box
}

@test "bash has a context in the python image" {
    start_box box
    contexts of_bash_keep_their_state box
    msb stop box
}
