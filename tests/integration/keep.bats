#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2154 # variables meant inside; stderr is set by bats
# Sandboxes that keep their files.
load helpers

setup() {
    rm -rf "$MSB_HOME/disks"
}

teardown() {
    msb stop --all >&2
    rm -rf "$MSB_HOME/disks"
}

keep() {
    msb exe python --keep --name box "$@" </dev/null
}

is_mounted_nowhere() {
    ! losetup --list --noheadings --output BACK-FILE 2>/dev/null | grep -q "^$MSB_HOME/disks/"
}

@test "what is written is there the next time, and so are changes to the image" {
    keep -c 'n = open("file", "w").write("kept")'
    keep --user root -- sh -c 'rm -r /usr/share/doc; mkdir /usr/share/doc; echo new >/usr/share/doc/new; chown 1234:99 /usr/share/doc/new; ln -s /etc /usr/share/etc' || true
    assert_equal "$(keep -- sh -c 'cat file; ls /usr/share/doc')" "keptnew"
    assert_equal "$(keep -c 'import os; print(open("file").read(), os.getcwd(), os.path.exists("/.kept"))')" "kept /workspace False"
    assert_equal "$(keep -- hostname)" box
    assert_equal "$(msb exe python --name box -- ls)" ""
    assert_nothing_left
    within 10 is_mounted_nowhere
}

@test "interpreters and commands see the same files" {
    keep --detach -c 'n = open("a", "w").write("from code")'
    assert_equal "$(msb exec box -- cat a)" "from code"
    msb exec box -- sh -c 'echo from a command >b'
    assert_equal "$(msb exec box -c 'print(open("b").read(), end="")')" "from a command"
    assert_equal "$(msb exec box -c 'import subprocess; print(subprocess.check_output(["cat", "a"]).decode())')" "from code"
    assert_equal "$(msb exec box -c '!cat a')" "from code"
    msb stop box
    assert_equal "$(keep -- cat a)" "from code"
}

@test "stopped by whatever way, everything is written" {
    keep --detach -- sh -c 'echo 1 >stopped'
    msb stop box
    keep --detach -- sh -c 'echo 2 >terminated'
    local keeper
    keeper=$(status_of box keeper_pid)
    kill "$keeper"
    within 15 is_gone "$keeper"
    keep --detach --idle 1 -- sh -c 'echo 3 >idle'
    within 15 test ! -e "$(state_folder box)"
    keep --detach -- sh -c 'echo 4 >paused'
    msb pause box
    msb stop box
    assert_equal "$(keep -- sh -c 'cat stopped terminated idle paused' | tr '\n' ' ')" "1 2 3 4 "
    assert_nothing_left
}

@test "whatever still writes, a machine leaves its disk as if it had been unmounted" {
    needs_machine
    keep --detach -- sh -c 'echo 1 >file; (while :; do date >>noise; done) >/dev/null 2>&1 &'
    msb exec box -c 'f = open("open", "w"); n = f.write("held"); f.flush()'
    msb stop box
    local disk=$MSB_HOME/disks/default/box/disk features
    features=$(/sbin/dumpe2fs -h "$disk" 2>/dev/null | grep features:)
    assert_contains "$features" has_journal
    [[ $features != *needs_recovery* ]]
    /sbin/e2fsck -fn "$disk" >&2
    assert_equal "$(keep -- cat file open)" "1
held"
}

@test "a keeper that is killed leaves a disk that can be used" {
    local keeper
    for i in 1 2 3; do
        keep --detach -- sh -c "echo $i >file$i; sync; (while :; do date >>noise; done) >/dev/null 2>&1 &"
        keeper=$(status_of box keeper_pid)
        kill -9 "$keeper"
        within 5 [ ! -e "/proc/$keeper" ]
    done
    assert_equal "$(keep -- sh -c 'cat file1 file2 file3 && echo more >more && echo fine' | tr '\n' ' ')" "1 2 3 fine "
    assert_swept
    if [ "$ENGINE" = vm ]; then
        /sbin/e2fsck -fn "$MSB_HOME/disks/default/box/disk" >&2
    fi
}

@test "--fresh throws the files away" {
    keep -- touch old
    assert_equal "$(keep --fresh -- ls)" ""
    keep -- touch new
    assert_equal "$(keep -- ls)" new
    msb exe python --name box --fresh -- true
    [ ! -e "$MSB_HOME/disks/default/box" ]
}

@test "another image, size or engine is refused with a remedy" {
    keep -- touch old
    run --separate-stderr msb exe node --keep --name box -- true
    assert_refused 125 "over another image: microsandbox/python"
    assert_contains "$stderr" "--fresh"
    run --separate-stderr keep --disk 4G -- true
    assert_refused 125 "on a disk of 8192 MB"
    if [ "$(id -u)" -eq 0 ]; then
        local other=jail
        [ "$ENGINE" = vm ] || other=vm
        run --separate-stderr keep --engine "$other" -- true
        assert_refused 125 "by engine $ENGINE"
        [[ $stderr != *template* ]]
    fi
    run --separate-stderr msb exe python --keep -- true
    assert_refused 2 "kept under a name"
    assert_equal "$(keep -- ls)" old
    assert_nothing_left
}

@test "a copy has the files, and does not touch what is kept" {
    keep --detach -c 'x = 5; n = open("file", "w").write("kept")'
    msb fork --quiet box twin
    msb exec twin -- sh -c 'cat file; echo changed >file'
    [ "$ENGINE" = jail ] || assert_equal "$(msb exec twin -c 'print(x)')" 5
    assert_equal "$(msb exec twin -- cat file)" changed
    assert_equal "$(msb exec box -- cat file)" kept
    msb snapshot box --as shot
    msb stop box twin
    msb restore --quiet shot
    assert_equal "$(msb exec shot -- cat file)" kept
    msb stop shot
    msb snapshot --remove shot
    assert_equal "$(keep -- cat file)" kept
    assert_nothing_left
}

@test "its disk is full when it is full" {
    local small=(--memory 256 --disk 128 --files 2000) # as in limits.bats, for the same template
    run keep "${small[@]}" -- sh -c 'head -c 500M /dev/zero >large'
    assert_contains "$output" "No space left"
    assert_equal "$(keep "${small[@]}" -- sh -c 'rm large; echo fits >small; cat small')" fits
}
