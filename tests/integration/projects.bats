#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2154 # variables meant inside; stderr is set by bats
# Projects as a user types them: the file, and the sandboxes that it names.
load helpers

setup() {
    mkdir "$BATS_TEST_TMPDIR/shop"
    cd "$BATS_TEST_TMPDIR/shop" || return 1
}

# ---- the file -------------------------------------------------------------------------------------

@test "init makes an empty project, once" {
    run --separate-stderr msb init
    assert_equal "$output" Sandboxfile
    run --separate-stderr msb list --json
    assert_equal "$output" "[]"
    run --separate-stderr msb init
    assert_refused 1 "there is a project already"
}

@test "init makes the folder too" {
    run --separate-stderr msb init --file deep/down
    assert_equal "$output" deep/down/Sandboxfile
    run --separate-stderr msb list --file deep/down --json
    assert_equal "$output" "[]"
}

@test "what is added is listed, and the rest of the file stays" {
    msb init
    echo '# a remark at the end' >>Sandboxfile
    run --separate-stderr msb add db web --image python --memory 512 --cpus 2 --env A=1 -p 0:80 \
        --script 'test=echo "two words"' --start 'sleep 100'
    assert_equal "$output" $'db\nweb'
    assert_contains "$(cat Sandboxfile)" '# a remark at the end'
    run --separate-stderr msb list
    assert_equal "${lines[2]}" "web   python  2     512 MB  0:80   -           test start"
    run --separate-stderr msb list --json
    assert_contains "$output" '"test": "echo \"two words\""'
}

@test "what is removed is gone, unless another one needs it" {
    msb init
    msb add db --image python
    msb add web --image python --depends-on db
    run --separate-stderr msb remove db
    assert_refused 1 "web depends on db"
    run --separate-stderr msb rm db web
    assert_equal "$output" $'db\nweb'
    run --separate-stderr msb list --json
    assert_equal "$output" "[]"
}

@test "what makes no sense is not added" {
    msb init
    before=$(cat Sandboxfile)
    run --separate-stderr msb add web
    assert_refused 2 "which image"
    run --separate-stderr msb add Web --image python
    assert_refused 1 '"Web" cannot be used'
    run --separate-stderr msb add web web --image python
    assert_refused 1 "there is a sandbox web already"
    run --separate-stderr msb add web --image python --depends-on nobody
    assert_refused 1 "web depends on nobody"
    run --separate-stderr msb add web --image python -v ./missing:/data
    assert_refused 1 "missing cannot be shared"
    run --separate-stderr msb add web --image python -p 99999:1
    assert_refused 1 "99999"
    run --separate-stderr msb add web --image python --script nameless
    assert_refused 1 "has no name"
    run --separate-stderr msb add web --image python --scope wide
    assert_refused 1 'there is no scope "wide"'
    assert_equal "$(cat Sandboxfile)" "$before"
}

@test "what is wrong with the file is told with its place" {
    run --separate-stderr msb list
    assert_refused 1 "there is no Sandboxfile"
    assert_contains "$stderr" "msb init"
    printf 'sandboxes:\n  web:\n    image: [python\n' >Sandboxfile
    run --separate-stderr msb list
    assert_refused 1 "Sandboxfile:4:"
    printf 'sandboxes:\n  a:\n    image: python\n    depends_on: [b]\n  b:\n    image: python\n    depends_on: [a]\n' >Sandboxfile
    run --separate-stderr msb list
    assert_refused 1 "Sandboxfile:2:3: these wait for each other: a, b, a"
    printf 'sandboxes:\n  a:\n    image: python\n    colour: red\n' >Sandboxfile
    run --separate-stderr msb list
    assert_equal "$status" 0
    assert_contains "$stderr" 'Sandboxfile:4:5: the key "colour" is not known'
}
