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

@test "the command line makes, uses, restarts and removes contexts" {
    start_box box
    msb contexts box --make python --id other --workdir /tmp --env A=7
    run msb exec box --context other -e B=8 -c 'import os; print(os.getcwd(), os.environ["A"], os.environ["B"])'
    [ "$output" = "/tmp 7 8" ]
    run msb exec box --context other -c 'os.environ.get("B")'
    [ "$output" = "" ]
    run msb contexts box --json
    [[ "$output" == *'"id": "other"'* ]]
    msb contexts box --restart other
    run msb exec box --context other -c 'os'
    [[ "$output" == *NameError* ]]
    msb contexts box --remove other
    run msb exec box --context other -c 1
    [ "$status" -eq 125 ]
    [[ "$output" == *"no context other"* ]]
    run msb contexts box --make python --restart python
    [ "$status" -eq 2 ]
    run msb contexts box --workdir /tmp
    [ "$status" -eq 2 ]
    msb stop box
}
