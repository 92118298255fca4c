#!/usr/bin/env bats
# Sandboxes made ahead by the server.
load helpers

pool() {
    cd "$BATS_TEST_DIRNAME" && MSB_BIN=$MSB timeout --kill-after=5 600 python3 pool.py "$MSB_HOME" "$@"
}

@test "drained again and again: never one twice, never a twin, always full again" {
    pool drained_again_and_again
}

@test "more at once than there are in stock" {
    pool many_at_once
}

@test "settings reach what was made before them" {
    pool settings_reach_it
}

@test "rehearsals leave no trace" {
    pool no_trace_of_rehearsals
}

@test "other machines are started plainly" {
    pool other_machines_are_started_plainly
}

@test "names are taken once, from the pool too" {
    pool names_that_are_taken
}

@test "the dead are skipped, and a start that fails with one is made anew" {
    pool the_dead_are_skipped one_that_dies_when_it_is_taken
}

@test "as many as were asked for lately; none when it is turned off" {
    pool sized_by_demand turned_off
}

@test "nothing made ahead outlives the server" {
    pool nothing_outlives_the_server
}

@test "nothing is left" {
    assert_nothing_left
}
