#!/usr/bin/env bats
# Sandboxes made ahead by the server.
load helpers

run_python() {
    cd "$BATS_TEST_DIRNAME" && MSB_BIN=$MSB timeout --kill-after=5 600 python3 "$@"
}

pool() {
    run_python pool.py "$MSB_HOME" "$@"
}

pool_host() {
    run_python pool_host.py "$MSB_HOME" "$@"
}

@test "drained again and again: never one twice, never a twin, always full again" {
    pool drained_again_and_again
}

@test "more at once than there are in stock" {
    pool many_at_once
}

@test "settings reach what was made before them" {
    pool settings_reach_it too_long_settings_are_refused
}

@test "rehearsals leave no trace" {
    pool no_trace_of_rehearsals
}

@test "thawed from one that has settled" {
    needs_machine
    start_box a-box
    [ "$(status_of a-box accelerator)" = tcg ] || skip "the kernel has a part of each machine here"
    msb stop a-box >&2
    pool thawed_from_one_that_has_settled
}

@test "other machines have pools of their own; shared folders mean a plain start" {
    pool other_machines_have_pools_of_their_own shared_folders_are_there
}

@test "there from the start on, when the server is told so" {
    pool made_ahead_from_the_start
}

@test "names are taken once, from the pool too" {
    pool names_that_are_taken
}

@test "the dead are skipped, and a start that fails with one is made anew" {
    pool the_dead_are_skipped one_that_dies_when_it_is_taken
}

@test "the first call of a session comes along with its start" {
    pool a_first_call_comes_along
}

@test "as many as were asked for lately; none when it is turned off" {
    pool sized_by_demand turned_off
}

@test "nothing made ahead outlives the server" {
    pool nothing_outlives_the_server
}

@test "what waits outlives the launcher, which is replaced" {
    pool what_waits_outlives_the_launcher
}

needs_pressure() {
    needs_root
    [ -w /proc/pressure/memory ] || skip "needs a kernel that tells of pressure"
}

@test "given up when memory is short, and made again later" {
    needs_pressure
    { echo -1 >/sys/fs/cgroup/memory/memory.limit_in_bytes ||
        echo max >/sys/fs/cgroup/memory.max; } 2>/dev/null ||
        skip "needs control groups below one of its own"
    pool_host given_up_when_memory_is_short
}

@test "kept when a program runs into its own limit" {
    needs_pressure
    pool_host kept_when_one_is_short_of_its_own
}

@test "every start succeeds on a busy host" {
    pool_host starts_succeed_on_a_busy_host
}

@test "what waits takes little of the processors" {
    needs_root
    pool_host steps_back_until_it_is_wanted
}

@test "counted in the metrics" {
    pool_host counted_in_metrics
}

@test "when stop has answered nothing acts any more, and nothing remains" {
    pool_host stop_returns_everything
}

@test "nothing is left" {
    assert_nothing_left
}
