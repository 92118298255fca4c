#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2154 # variables meant inside; stderr is set by bats
# Host folders inside a sandbox.
load helpers

setup() {
    needs_root
    cd "$BATS_TEST_TMPDIR" || return 1
    mkdir shared other
    chown 1234:1234 shared
}

@test "a file written on one side is there on the other" {
    echo from-outside >shared/a
    run msb exe python -v "$PWD/shared:/data" -- sh -c 'cat /data/a; echo from-inside >/data/b'
    assert_equal "$output" from-outside
    assert_equal "$(cat shared/b)" from-inside
}

@test "sharing is at once, in both directions" {
    msb exe python -d -n volume-box -v "$PWD/shared:/data" -- true
    echo one >shared/a
    chown 1234:1234 shared/a
    run msb exec volume-box -- cat /data/a
    assert_equal "$output" one
    msb exec volume-box -- sh -c 'echo two >>/data/a; mkdir /data/d; mv /data/a /data/d/b'
    assert_equal "$(cat shared/d/b)" $'one\ntwo'
    rm -r shared/d
    run msb exec volume-box -- ls /data
    assert_equal "$output" ""
    msb stop volume-box
}

@test "new files belong to the folder's owner" {
    msb exe python -v "$PWD/shared:/data" -- touch /data/by-user
    assert_equal "$(stat -c %u:%g shared/by-user)" 1234:1234
}

@test "so do those of root" {
    needs_machine
    msb exe python -v "$PWD/shared:/data" -- sudo touch /data/by-root
    assert_equal "$(stat -c %u:%g shared/by-root)" 1234:1234
}

@test "the user inside may use files of the folder's owner" {
    echo hello >shared/private
    chmod 600 shared/private
    chown 1234:1234 shared/private
    run msb exe python -v "$PWD/shared:/data" -c 'open("/data/private").read()'
    assert_equal "$output" "'hello\\n'"
}

@test "files of other owners stay theirs" {
    echo secret >shared/root-file
    chmod 600 shared/root-file
    run msb exe python -v "$PWD/shared:/data" -- sudo cat /data/root-file
    [ "$status" -ne 0 ]
    [[ $output != *secret* ]]
}

@test "modes and times set inside are there outside" {
    msb exe python -v "$PWD/shared:/data" -- sh -c 'echo "#!/bin/sh" >/data/a; chmod 750 /data/a; touch -d @1000000 /data/a'
    assert_equal "$(stat -c '%a %Y' shared/a)" "750 1000000"
}

@test "a relative host path starts here" {
    echo hello >shared/a
    run msb exe python -v ./shared:/data -v other/../shared:/again -- cat /data/a /again/a
    assert_equal "$output" $'hello\nhello'
}

@test "several folders at once" {
    touch shared/a other/b
    run msb exe python -v "$PWD/shared:/data" -v "$PWD/other:/workspace/deep/down:ro" -- \
        sh -c 'ls /data /workspace/deep/down'
    assert_equal "$output" $'/data:\na\n\n/workspace/deep/down:\nb'
}

@test "a read-only folder refuses writes, also by root" {
    echo hello >shared/a
    run msb exe python -v "$PWD/shared:/data:ro" -- sh -c '
        cat /data/a
        touch /data/new || sudo touch /data/new || sudo rm /data/a || sudo chmod 777 /data/a ||
            sudo sh -c "echo x >>/data/a" || { sudo mount -o remount,rw /data; sudo touch /data/new; } ||
            echo refused'
    assert_contains "$output" hello
    assert_contains "$output" refused
    assert_equal "$(ls shared)" a
    assert_equal "$(cat shared/a)" hello
}

@test "no setuid program can be planted" {
    needs_machine # jail.bats has its own
    run msb exe python -v "$PWD/shared:/data" -- sudo sh -c '
        cp /bin/true /data/t && chown 0:0 /data/t; chmod 6755 /data/t; ls -l /data'
    # The bit alone does no harm: who owns the folder could have set it.
    assert_equal "$(stat -c %u:%g shared/t)" 1234:1234
}

@test "no device can be planted" {
    msb exe python -v "$PWD/shared:/data" --user root -- sh -c 'mknod /data/disk b 8 0; mknod /data/null c 1 3; true'
    [ ! -b shared/disk ]
    [ ! -c shared/null ]
}

@test "links and .. do not lead out" {
    echo secret >other/secret
    ln -s "$PWD/other" shared/absolute
    ln -s ../other shared/relative
    ln -s "$PWD/other/secret" shared/file
    run msb exe python -v "$PWD/shared:/data" -- sh -c '
        cat /data/absolute/secret /data/relative/secret /data/file /data/../other/secret
        ln -s ../../other /data/made; cat /data/made/secret; sudo cat /data/absolute/secret; true'
    [[ $output != *secret$'\n'secret* ]]
    [ "$(grep -c '^secret$' <<<"$output")" -eq 0 ]
}

@test "a folder outside that becomes a link does not lead out" {
    echo secret >other/secret
    mkdir shared/d
    msb exe python -d -n swap-box -v "$PWD/shared:/data" -- sh -c 'cd /data/d && exec sleep 1' &
    wait $!
    rmdir shared/d
    ln -s "$PWD/other" shared/d
    run msb exec swap-box -- sudo cat /data/d/secret
    [ "$status" -ne 0 ]
    msb stop swap-box
}

@test "the neighbour's folder is not there" {
    touch other/mine
    msb exe python -d -n first-box -v "$PWD/other:/data" -- true
    run msb exe python -v "$PWD/shared:/data" -- ls /data
    assert_equal "$output" ""
    run msb exe python -- ls /data
    [ "$status" -ne 0 ]
    msb stop first-box
}

@test "many and large files come through whole" {
    head -c 8M /dev/urandom >shared/large
    run msb exe python -v "$PWD/shared:/data" -- sh -c 'cp /data/large /data/copy; sha256sum </data/copy
        for i in $(seq 200); do echo $i >/data/f$i; done'
    assert_equal "$output" "$(sha256sum <shared/large)"
    cmp shared/large shared/copy
    assert_equal "$(find shared -name 'f*' | wc -l)" 200
}

@test "volumes that make no sense are refused" {
    touch file
    local volume
    for volume in ./missing:/data ./file:/data shared /data: :/data ./shared:data ./shared:/ \
        ./shared:/. ./shared:// ./shared:/a/../.. ./shared:/data:rx; do
        run --separate-stderr msb exe python -v "$volume" -- true
        echo "$volume: $output $stderr"
        assert_refused 2 ""
    done
    run --separate-stderr msb exe python -v ./missing:/data -- true
    assert_refused 2 missing
    assert_contains "$stderr" "create it first"
}

@test "nothing is left" {
    assert_nothing_left
}
