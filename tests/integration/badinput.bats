#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2154 # variables meant inside; stderr is set by bats
# What cannot work is refused with a clear sentence, and leaves nothing.
load helpers

@test "an unknown image is refused" {
    run --separate-stderr msb exe no-such-image -- true
    assert_refused 125 no-such-image
    run --separate-stderr msb exe ../../etc -- true
    assert_refused 125 ../../etc
    run --separate-stderr msb exe
    assert_refused 2 "which image"
}

@test "memory that makes no sense is refused" {
    local memory
    for memory in 0 1 -5 abc 12x 1.5 99999999 4194305G 18446744073709551617; do
        run --separate-stderr msb exe python --memory "$memory" -- true
        echo "$memory: $status $output $stderr"
        assert_refused 2 ""
    done
}

@test "processors and disks that make no sense are refused" {
    local option
    for option in --cpus=0 --cpus=65 --cpus=x --cpus= --disk=0 --disk=1 --disk=9999999999; do
        run --separate-stderr msb exe python "$option" -- true
        echo "$option: $status $output $stderr"
        assert_refused 2 ""
    done
}

@test "times that make no sense are refused" {
    local value
    for value in 0 -1 x 1d 1e30 nan; do
        run --separate-stderr msb exe python --timeout "$value" -- true
        echo "$value: $status $output $stderr"
        assert_refused 2 timeout
    done
}

@test "names that are no names are refused" {
    local name
    for name in '' . .. a/b ../a 'a b' $'a\nb' -a "$(printf 'a%.0s' {1..64})" $'\e[31m'; do
        run --separate-stderr msb exe python --name="$name" -- true
        echo "$name: $status $output $stderr"
        assert_refused 2 ""
        run --separate-stderr msb stop -- "$name"
        [ "$status" -ne 0 ]
    done
    for name in .. ../.. a/b; do
        run --separate-stderr msb exe python --namespace "$name" -- true
        assert_refused 2 ""
        run --separate-stderr msb ps --namespace "$name"
        assert_refused 2 ""
        run --separate-stderr msb exec box --namespace "$name" -- true
        assert_refused 2 ""
    done
    run find "$MSB_HOME/images" "$MSB_HOME/templates" -name lock -type f
    assert_equal "$output" ""
}

@test "environment variables that are none are refused" {
    local variable
    for variable in =a 1A=b 'A B=c' ''; do
        run --separate-stderr msb exe python --env="$variable" -- true
        assert_refused 2 "environment"
    done
}

@test "options and commands that are not known are refused" {
    run --separate-stderr msb exe python --no-such-option -- true
    assert_refused 2 --no-such-option
    run --separate-stderr msb exe python --memory
    assert_refused 2 "needs a value"
    run --separate-stderr msb no-such-command
    assert_refused 2 no-such-command
    run --separate-stderr msb exe python node -- true
    assert_refused 2 "one image"
    run --separate-stderr msb exe python -c 1 -- true
    assert_refused 2 "both"
    run --separate-stderr msb exe python --accel fast -- true
    assert_refused 125 fast
}

@test "every command explains itself" {
    local command
    for command in exe exec ps stop prepare doctor version; do
        run --separate-stderr msb "$command" --help
        assert_equal "$status" 0
        assert_contains "$output" "Usage: msb $command"
        assert_equal "$stderr" ""
    done
    run msb --help
    assert_equal "$status" 0
    run msb version
    assert_equal "$status" 0
    run --separate-stderr msb
    assert_equal "$status" 2
}

@test "doctor's exit code says whether sandboxes can start" {
    run msb doctor
    assert_equal "$status" 0
    assert_contains "$output" "Sandboxes can start here."
    MSB_QEMU=/nonexistent run msb doctor
    assert_equal "$status" 1
    assert_contains "$output" missing
    run msb doctor --json
    python3 -m json.tool <<<"$output" >/dev/null
}

@test "without QEMU there is advice" {
    MSB_QEMU=/nonexistent run --separate-stderr msb exe python -- true
    assert_refused 125 "QEMU is not installed"
    assert_contains "$stderr" "apt-get install"
}

@test "a kernel that is none is refused" {
    echo "no kernel" >"$BATS_TEST_TMPDIR/text"
    run --separate-stderr msb exe python --kernel /nonexistent -- true
    assert_refused 125 /nonexistent
    MSB_KERNEL=$BATS_TEST_TMPDIR/text run --separate-stderr msb exe python -- true
    assert_refused 125 "$BATS_TEST_TMPDIR/text"
}

@test "a home that cannot be written is refused" {
    touch "$BATS_TEST_TMPDIR/file"
    MSB_HOME=$BATS_TEST_TMPDIR/file run --separate-stderr msb exe python -- true
    assert_refused 125 "$BATS_TEST_TMPDIR/file"
    needs_root
    mkdir -m 755 "$BATS_TEST_TMPDIR/locked"
    chmod 755 "$BATS_TEST_TMPDIR" "$BATS_RUN_TMPDIR"
    cp "$MSB" "$BATS_TEST_TMPDIR/msb"
    run --separate-stderr setpriv --reuid 65534 --regid 65534 --clear-groups \
        env MSB_HOME="$BATS_TEST_TMPDIR/locked/home" "$BATS_TEST_TMPDIR/msb" exe python -- true
    assert_refused 125 "$BATS_TEST_TMPDIR/locked"
}

@test "a full disk is told before anything is built" {
    needs_root
    # The small disk lives in a mount namespace of its own and vanishes with it.
    run --separate-stderr timeout 60 unshare --mount bash -c '
        set -e
        mkdir "$0"
        mount -t tmpfs -o size=300m msb-test "$0"
        mkdir "$0/images" "$0/kernels"
        mount --bind "$MSB_HOME/images" "$0/images"
        mount --bind "$MSB_HOME/kernels" "$0/kernels"
        code=0
        MSB_HOME=$0 "$MSB" exe python -- true || code=$?
        find "$0/tmp" -mindepth 1 ! -name lock
        exit $code' "$BATS_TEST_TMPDIR/small"
    assert_equal "$status" 125
    assert_equal "$output" ""
    assert_contains "$stderr" "MB"
    assert_contains "$stderr" "free"
}

@test "two that want the same template build it once" {
    local first second
    drop_templates 384
    msb exe python --memory 384 -- echo first >"$BATS_TEST_TMPDIR/first" 2>"$BATS_TEST_TMPDIR/err1" &
    first=$!
    msb exe python --memory 384 -- echo second >"$BATS_TEST_TMPDIR/second" 2>"$BATS_TEST_TMPDIR/err2" &
    second=$!
    wait "$first"
    wait "$second"
    assert_equal "$(cat "$BATS_TEST_TMPDIR/first" "$BATS_TEST_TMPDIR/second")" $'first\nsecond'
    assert_equal "$(templates_of 384 | wc -l)" 1
    assert_equal "$(cat "$BATS_TEST_TMPDIR"/err? | grep -c 'Preparing a template.*done')" 1
}

@test "a template cut short is made anew" {
    local folder
    folder=$(templates_of 384)
    [ -n "$folder" ] || skip "the test before makes the template"
    truncate --size=1M "$folder/ram"
    truncate --size=100 "$folder/state"
    run --separate-stderr msb exe python --memory 384 -- echo fine
    assert_equal "$output" fine
    assert_contains "$stderr" "Preparing a template"
    run --separate-stderr msb exe python --memory 384 -- echo fine
    assert_equal "$output" fine
    assert_equal "$stderr" ""
}

# Its files have the sizes they should have, but nothing in them.
empty_template() {
    local file size
    for file in ram frozen frozen-settled; do
        [ -e "$1/$file" ] || continue
        size=$(stat -c %s "$1/$file")
        truncate -s 0 "$1/$file"
        truncate -s "$size" "$1/$file"
    done
}

@test "a template whose machines never answer is made anew, once" {
    local folder
    folder=$(templates_of 384)
    empty_template "$folder"
    run --separate-stderr msb exe python --memory 384 -c '6*7' </dev/null
    assert_refused 125 "could not be set up"
    assert_contains "$stderr" "made anew"
    run msb exe python --memory 384 -c '6*7' </dev/null
    assert_equal "${lines[-1]}" 42
    # The second time it is not the template's fault.
    empty_template "$folder"
    run --separate-stderr msb exe python --memory 384 -c '6*7' </dev/null
    assert_refused 125 "could not be set up"
    [[ $stderr != *"made anew"* ]]
    rm -r "$folder" "$MSB_HOME/templates/.distrusted-${folder##*/}"
}

@test "Ctrl-C and kill while a template is built leave nothing" {
    local client code=0
    drop_templates 384
    env --default-signal=INT "$MSB" exe python --memory 384 -- true </dev/null 2>"$BATS_TEST_TMPDIR/err" 3>&- &
    client=$!
    within 10 grep -q Preparing "$BATS_TEST_TMPDIR/err"
    kill -INT "$client"
    wait "$client" || code=$?
    assert_equal "$code" 130
    assert_nothing_left
    "$MSB" exe python --memory 384 -- true </dev/null 2>"$BATS_TEST_TMPDIR/err" 3>&- &
    client=$!
    is_at_work() { compgen -G "$MSB_HOME/tmp/work-*" >/dev/null; }
    within 10 is_at_work
    kill -9 "$client"
    wait "$client" || true
    # The machine dies with its maker; the files go with the next build.
    machine_is_gone() { [ -z "$(processes_of_home)" ]; }
    within 5 machine_is_gone
    local left
    left=$(find "$MSB_HOME/tmp" -maxdepth 1 -name 'work-*')
    [ -d "$left" ]
    "$MSB" exe python --memory 384 -- true </dev/null 2>"$BATS_TEST_TMPDIR/err" 3>&- &
    client=$!
    within 10 [ ! -e "$left" ]
    kill -TERM "$client"
    wait "$client" || true
    assert_swept
}

@test "nothing is left" {
    assert_nothing_left
}
