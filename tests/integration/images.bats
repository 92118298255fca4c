#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2030,SC2031,SC2154 # variables meant inside or for one test; stderr is set by bats
# What images from registries are when they run: images made by real tools, and hostile ones.
load helpers
load images

@test "an image is pulled at its first use and is there for the second" {
    push_image plain
    run --separate-stderr run_in plain -- /bin/busybox echo hi
    assert_equal "$output" hi
    assert_equal "$status" 0
    run --separate-stderr msb pull "$REGISTRY/plain"
    assert_contains "$output" "up to date"
    run --separate-stderr msb pull --json "$REGISTRY/plain"
    assert_equal "$(python3 -c 'import json, sys; print(*[(image["name"], image["changed"]) for image in json.load(sys.stdin)])' <<<"$output")" \
        "('$REGISTRY/plain:latest', False)"
}

@test "a scratch image with one static program runs" {
    pull scratch
    run --separate-stderr run_in scratch
    assert_equal "$output" "from scratch"
    run --separate-stderr run_in scratch -- /busybox id -u
    assert_equal "$output" 0
}

@test "what the image says about itself is honoured" {
    pull configured
    run --separate-stderr run_in configured
    assert_equal "$output" $'good morning\n/made/for/work\n1234\n5678'
}

@test "layers in three compressions, whiteouts and opaque folders make the right tree" {
    pull layers
    run --separate-stderr run_in layers -- sh -c '
        find /keep /opaque /folder /file /tree -type f | while read -r file; do echo "$file $(cat "$file")"; done
        test -e /gone || echo gone is gone; readlink /way'
    assert_equal "$(sort <<<"$output")" "$(sort <<<'/keep/a a3
/keep/b b2
/keep/c a1
/opaque/sub/high 2
/opaque/high 2
/folder a file now
/file/in 3
/tree/new 2
gone is gone
keep')"
}

@test "owners, modes, capabilities and strange names are kept" {
    pull owners
    run --separate-stderr run_in owners -- sh -c 'stat -c "%a %u" /setuid; stat -c %u /owned; cat /sp* /*ut'
    assert_equal "$output" $'4755 7\n65000\nxx'
}

@test "an image with a strange root runs" {
    pull strange
    run --separate-stderr run_in strange -- sh -c 'id -u; echo x >/tmp/file; cat /tmp/file /dev/null; test -d /proc/1 && ls /'
    assert_contains "$output" $'1000\nx\n'
    assert_equal "$status" 0
}

@test "an image whose /etc leads nowhere runs" {
    pull no-etc
    run --separate-stderr run_in no-etc -- cat /etc/hostname
    assert_equal "$status" 0
}

@test "hostile entries stay inside" {
    export OUTSIDE=$BATS_TEST_TMPDIR/outside
    mkdir "$OUTSIDE"
    local hostname
    hostname=$(cat /etc/hostname)
    pull hostile
    assert_equal "$(ls -A "$OUTSIDE")" ""
    assert_equal "$(cat /etc/hostname)" "$hostname"
    [ ! -e /absolute ]
    run --separate-stderr run_in hostile -- sh -c "cat /out/through-link /up/through-dots /absolute /etc/over
        test -e /disk || test -e /chars || echo no devices"
    assert_equal "$output" "xxxreplacedno devices"
    touch "$OUTSIDE/victim"
    pull hides-outside
    [ -e "$OUTSIDE/victim" ]
    run --separate-stderr run_in hides-outside -- sh -c "ls $OUTSIDE; cat /again /link"
    assert_equal "$output" $'4\n4'
}

@test "what cannot be taken is refused, each with its reason" {
    local case
    for case in "dots=leads out" "hard-link-out=leads out" "hard-link-by-link=is not there" "hard-link-to-folder=is not there" \
        "no-name=no name" "hides-parent=no name" "owner=owner" "deep=longer than" "long-name=absurd" "root-file=no folder" "pax-out=leads out" \
        "pax-huge=too large" "pax-size=larger" "broken=broken" "torn=broken" \
        "bomb=larger" "foreign=linux/riscv64"; do
        push_image "${case%%=*}"
        assert_not_pulled "${case%%=*}" "${case#*=}" || {
            echo "$case" >&2
            return 1
        }
    done
}

@test "code needs an interpreter in the image" {
    pull plain
    run --separate-stderr run_in plain -c 'print(1)'
    assert_equal "$status" 2
    assert_contains "$stderr" "no interpreter"
}

@test "a program that only calls itself python3 does not keep the image from running" {
    pull talkative
    run --separate-stderr run_in talkative -- echo fine
    assert_equal "$output" fine
    run --separate-stderr run_in talkative -c 'print(1)'
    [ "$status" -ne 0 ]
    assert_contains "$stderr" "python"
}

@test "an image of glibc and one of musl, both with a loader of their own, run" {
    pull glibc
    run --separate-stderr run_in glibc
    assert_equal "$output" "loaded by ld-linux-x86-64.so.2"
    pull musl
    run --separate-stderr run_in musl
    assert_equal "$output" "loaded by ld-musl-x86_64.so.1"
}

@test "an image made by umoci, with files that it removed again, has the right tree" {
    needs_root
    local layout=$BATS_TEST_TMPDIR/made bundle=$BATS_TEST_TMPDIR/bundle
    umoci init --layout "$layout"
    umoci new --image "$layout:latest"
    umoci unpack --image "$layout:latest" "$bundle"
    mkdir -p "$bundle/rootfs/bin" "$bundle/rootfs/data"
    cp /bin/busybox "$bundle/rootfs/bin/"
    touch "$bundle/rootfs/data/"{kept,removed}
    umoci repack --image "$layout:latest" "$bundle"
    rm "$bundle/rootfs/data/removed"
    touch "$bundle/rootfs/data/added"
    umoci repack --refresh-bundle --image "$layout:latest" "$bundle" || umoci repack --image "$layout:latest" "$bundle"
    umoci config --image "$layout:latest" --config.entrypoint /bin/busybox --config.cmd ls --config.workingdir /data
    skopeo copy --quiet --dest-tls-verify=false "oci:$layout:latest" "docker://$REGISTRY/made:latest"
    run --separate-stderr run_in made
    assert_equal "$output" $'added\nkept'
}

@test "the user of an image: numbers, names, and one that is not there" {
    local case
    for case in "user-number=4711 0" "user-numbers=4711 4712" "user-names=77 99"; do
        pull "${case%%=*}"
        run --separate-stderr run_in "${case%%=*}" -- sh -c 'echo $(id -u) $(id -g)'
        assert_equal "$output" "${case#*=}"
    done
    pull user-missing
    run --separate-stderr run_in user-missing -- id
    assert_refused 126 "there is no user stranger"
    assert_contains "$stderr" "/etc/passwd"
    run --separate-stderr run_in user-missing --user 0 -- id -u
    assert_equal "$output" 0
}

@test "an image without a command says so" {
    pull plain
    run --separate-stderr run_in plain </dev/null
    assert_equal "$status" 2
    assert_contains "$stderr" "no command"
}

@test "an image that a sandbox runs from is not removed" {
    pull scratch
    msb exe "$REGISTRY/scratch" --quiet --detach --name user -- /busybox true
    run --separate-stderr msb rmi "$REGISTRY/scratch"
    assert_refused 125 "the sandbox user runs from"
    assert_contains "$stderr" "msb stop"
    msb rmi --force "$REGISTRY/scratch"
    run --separate-stderr msb exec user -- /busybox echo still
    assert_equal "$output" still
    msb stop user
}

# As on a distribution without Debian's tools: without_apt COMMAND…
without_apt() {
    unshare --mount --propagation private bash -euc '
        for program in apt-get apt-cache apt-config dpkg dpkg-deb dpkg-query mmdebstrap; do
            [ ! -e "/usr/bin/$program" ] || mount --bind /dev/null "/usr/bin/$program"
        done
        exec timeout --kill-after=5 180 "$@"' bash "$MSB" "$@"
}

@test "where there is no apt, a kernel and an image that are given are enough" {
    local kernel
    needs_machine
    needs_root
    kernel=$(find "$TEST_HOME/kernels" -path '*/[0-9]*/vmlinux' -print -quit)
    export MSB_HOME=$BATS_TEST_TMPDIR/home
    make_layout plain
    run without_apt doctor
    assert_equal "$status" 1
    assert_contains "$output" "choose a kernel with --kernel"
    MSB_KERNEL=$kernel run without_apt doctor
    assert_equal "$status" 0
    assert_contains "$output" "without mmdebstrap python and node cannot be built"
    without_apt image import "$BATS_FILE_TMPDIR/layouts/plain" localhost/plain
    run --separate-stderr without_apt exe localhost/plain --quiet -- busybox true
    assert_refused 125 "the kernel comes from Debian"
    run --separate-stderr without_apt exe localhost/plain --quiet --kernel "$kernel" -- busybox echo hi
    assert_equal "$output" hi
}
