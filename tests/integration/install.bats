#!/usr/bin/env bats
# What `make install` writes, and the version of everything that is given to others.

load helpers

setup_file() {
    :
}

teardown() {
    :
}

teardown_file() {
    :
}

version() {
    sed -n 's/^VERSION *= *//p' "$REPOSITORY/Makefile"
}

# quiet_make ARGUMENTS…: in the repository; the build of the tests is the one that is installed
quiet_make() {
    env -u MAKEFLAGS -u MFLAGS make --no-print-directory -C "$REPOSITORY" "$@" >"$BATS_TEST_TMPDIR/log" 2>&1 || {
        cat "$BATS_TEST_TMPDIR/log" >&2
        return 1
    }
}

files_below() {
    (cd "$1" && find . ! -type d | sort)
}

@test "everything has the version of the Makefile" {
    "$REPOSITORY/tools/set-version" --check "$(version)"
    assert_equal "$("$MSB" --version)" "msb $(version)"
}

@test "another version is noticed wherever it stands, and written there" {
    local copy=$BATS_TEST_TMPDIR/copy file
    mkdir -p "$copy"
    (cd "$REPOSITORY" && tar c tools/set-version sdk debian CHANGELOG.md) | tar x -C "$copy"
    run "$copy/tools/set-version" --check 99.1.2
    assert_equal "$status" 1
    for file in sdk/python/microsandbox/__init__.py sdk/js/package.json debian/changelog CHANGELOG.md; do
        assert_contains "$output" "$file has version $(version), not 99.1.2"
    done
    sed -i "s/^## \[$(version)\]/## [99.1.2]/" "$copy/CHANGELOG.md"
    "$copy/tools/set-version" 99.1.2
    "$copy/tools/set-version" --check 99.1.2
    assert_equal "$(PYTHONPATH="$copy/sdk/python" python3 -c 'import microsandbox; print(microsandbox.__version__)')" 99.1.2
    assert_equal "$(node -p "require('$copy/sdk/js/package.json').version")" 99.1.2
    assert_equal "$(head -n 1 "$copy/debian/changelog")" "msb (99.1.2) unstable; urgency=medium"
}

@test "what is no version is refused" {
    local word
    for word in "" 1 1.2 1.2.3.4 1.2.x "1.2.3 " "1.2.3/x"; do
        run "$REPOSITORY/tools/set-version" "$word"
        assert_equal "$status" 2
    done
}

@test "uninstall removes what install has written, and nothing else" {
    local root=$BATS_TEST_TMPDIR/root place
    for place in PREFIX=/usr/local "PREFIX=/opt/msb LIBDIR=/opt/msb/lib/x86"; do
        mkdir -p "$root/usr/local/bin" "$root/opt/msb/bin"
        touch "$root/usr/local/bin/other" "$root/opt/msb/bin/other"
        # shellcheck disable=SC2086 # words
        quiet_make install "DESTDIR=$root" $place
        assert_equal "$(files_below "$root" | wc -l)" 11
        # shellcheck disable=SC2086 # words
        quiet_make uninstall "DESTDIR=$root" $place
        assert_equal "$(files_below "$root")" $'./opt/msb/bin/other\n./usr/local/bin/other'
    done
}

@test "a program is built with the library where it was installed" {
    local root=$BATS_TEST_TMPDIR/root
    quiet_make install "PREFIX=$root" "LIBDIR=$root/lib/x86"
    export PKG_CONFIG_PATH=$root/lib/x86/pkgconfig
    assert_equal "$(pkg-config --modversion msb)" "$(version)"
    # shellcheck disable=SC2046 # words
    gcc -o "$root/workflow" "$REPOSITORY/examples/c/workflow.c" $(pkg-config --cflags --libs msb)
    assert_contains "$(LD_LIBRARY_PATH=$root/lib/x86 ldd "$root/workflow")" "$root/lib/x86/libmsb.so.0"
    quiet_make uninstall "PREFIX=$root" "LIBDIR=$root/lib/x86"
    assert_equal "$(files_below "$root")" ./workflow
}
