#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2030,SC2031,SC2154 # variables meant inside or for one test; stderr is set by bats
# Images from registries and archives: a real registry, images made by real tools and hostile ones.
load helpers
load registry

TEST_HOME=$MSB_HOME
export MSB_HOME=$BATS_FILE_TMPDIR/home

setup_file() {
    mkdir -p "$MSB_HOME"
    [ ! -d "$TEST_HOME/kernels" ] || cp -al "$TEST_HOME/kernels" "$MSB_HOME/"
    start_registry "$BATS_FILE_TMPDIR/registry"
    export REGISTRY REGISTRY_PID MSB_INSECURE_REGISTRIES=$REGISTRY
    unset OCI_REGISTRY_DOMAIN DOCKER_CONFIG http_proxy HTTP_PROXY
    export HOME=$BATS_FILE_TMPDIR
}

# What a test has started for itself.
teardown() {
    [ "${#STARTED[@]}" -eq 0 ] || kill "${STARTED[@]}"
    [ -n "$BATS_TEST_COMPLETED" ] || msb stop --all >&2
}

teardown_file() {
    kill "$REGISTRY_PID"
    msb stop --all >&2
}

pull() {
    push_image "$1"
    msb pull --quiet "$REGISTRY/$1"
}

run_in() {
    local image=$1
    shift
    msb exe "$REGISTRY/$image" --quiet "$@"
}

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

@test "of a list, the manifest for this architecture is taken" {
    [ "$(uname -m)" = x86_64 ] || skip "the list is made for x86_64"
    pull many
    run --separate-stderr run_in many
    assert_equal "$output" amd64
    push_image many-others
    assert_not_pulled many-others "none for linux/amd64"
    assert_contains "$stderr" "linux/arm64, linux/s390x"
}

@test "docker's own formats are read" {
    push_image plain --format v2s2
    msb pull "$REGISTRY/plain"
    run --separate-stderr run_in plain -- echo docker
    assert_equal "$output" docker
}

@test "a digest names exactly one image" {
    pull plain
    local digest
    digest=$(msb image inspect "$REGISTRY/plain" | python3 -c 'import json, sys; print(json.load(sys.stdin)[0]["manifest"])')
    run --separate-stderr msb pull "$REGISTRY/plain@$digest"
    assert_equal "$status" 0
    run --separate-stderr msb pull "$REGISTRY/plain@sha256:$(printf '0%.0s' {1..64})"
    assert_refused 125 "has no plain@sha256:000"
}

# The digest of the last layer of an image in a layout.
last_layer() {
    python3 - "$BATS_FILE_TMPDIR/layouts/$1" <<'END'
import json, sys
folder = sys.argv[1]
index = json.load(open(f'{folder}/index.json'))
manifest = json.load(open(f'{folder}/blobs/sha256/' + index['manifests'][0]['digest'][7:]))
print(manifest['layers'][-1]['digest'])
END
}

@test "a layer with another digest is not used, and a later pull gets the right one" {
    push_image large
    local file
    file=$(blob_file "$BATS_FILE_TMPDIR/registry" "$(last_layer large)")
    cp "$file" "$BATS_TEST_TMPDIR/right"
    spoil "$file" 1000
    assert_not_pulled large "another digest"
    assert_equal "$(ls "$MSB_HOME/images/partial")" ""
    cp "$BATS_TEST_TMPDIR/right" "$file"
    msb pull "$REGISTRY/large"
}

@test "a truncated layer is told, kept, and resumed where it ended" {
    push_image large
    msb rmi "$REGISTRY/large" || true
    local file
    file=$(blob_file "$BATS_FILE_TMPDIR/registry" "$(last_layer large)")
    cp "$file" "$BATS_TEST_TMPDIR/right"
    truncate --size=10000000 "$file"
    assert_not_pulled large "after 10000000 of"
    assert_equal "$(stat -c %s "$MSB_HOME/images/partial/"*)" 10000000
    cp "$BATS_TEST_TMPDIR/right" "$file"
    msb pull "$REGISTRY/large"
    # Most of it was there: the registry has sent only what was missing.
    local sent
    sent=$(grep -c 'http.response.status=206' "$BATS_FILE_TMPDIR/registry/log")
    [ "$sent" -ge 1 ]
    run --separate-stderr run_in large -- stat -c %s /large
    assert_equal "$output" 25165824
}

@test "two pulls of the same image at once fetch it once" {
    push_image large
    msb rmi "$REGISTRY/large" || true
    msb pull "$REGISTRY/large" >"$BATS_TEST_TMPDIR/one" &
    msb pull "$REGISTRY/large" >"$BATS_TEST_TMPDIR/two"
    wait $!
    assert_equal "$(cat "$BATS_TEST_TMPDIR"/{one,two} | grep -c 'is here')" 1
    assert_equal "$(cat "$BATS_TEST_TMPDIR"/{one,two} | grep -c 'up to date')" 1
}

@test "layers are shared, and collected with their last image" {
    pull plain
    pull large
    local shared
    shared=$(find "$MSB_HOME/images/oci" -name "sha256-$(last_layer plain | cut -c8-)")
    [ -n "$shared" ]
    msb rmi "$REGISTRY/large"
    [ -e "$shared" ]
    [ ! -e "$MSB_HOME/images/oci/sha256-$(last_layer large | cut -c8-)" ]
    local name
    for name in $(msb images --json | python3 -c 'import json, sys; print(*[image["name"] for image in json.load(sys.stdin)])'); do
        msb rmi "$name"
    done
    assert_equal "$(find "$MSB_HOME/images/oci" "$MSB_HOME/images/blobs" -type f)" ""
    run --separate-stderr msb rmi plain
    assert_refused 125 "not in the store"
}

@test "images are listed" {
    pull plain
    run --separate-stderr msb images
    assert_contains "$output" "$REGISTRY/plain:latest"
    assert_contains "$output" "MB"
    run --separate-stderr msb image inspect "$REGISTRY/plain"
    assert_contains "$output" '"workdir": "/"'
}

@test "an image goes to an archive and comes back, to us and to others" {
    pull configured
    msb image export "$REGISTRY/configured" "$BATS_TEST_TMPDIR/image.tar"
    msb image export "$REGISTRY/configured" - >"$BATS_TEST_TMPDIR/stdout.tar"
    cmp "$BATS_TEST_TMPDIR/image.tar" "$BATS_TEST_TMPDIR/stdout.tar"
    skopeo copy --quiet "oci-archive:$BATS_TEST_TMPDIR/image.tar" "docker-archive:$BATS_TEST_TMPDIR/docker.tar:localhost/again:1"
    skopeo inspect "docker-archive:$BATS_TEST_TMPDIR/image.tar" >/dev/null
    msb image import "$BATS_TEST_TMPDIR/docker.tar"
    run --separate-stderr msb exe localhost/again:1 --quiet
    assert_contains "$output" "good morning"
    msb image import "$BATS_FILE_TMPDIR/layouts/configured" localhost/folder --tag latest
    run --separate-stderr msb image import "$BATS_FILE_TMPDIR/layouts/configured" localhost/folder --tag other
    assert_refused 125 "no image with the tag other"
    run --separate-stderr msb image import /etc/passwd
    assert_refused 125 "cannot import /etc/passwd"
    run --separate-stderr msb image import "$BATS_TEST_TMPDIR/image.tar" python
    assert_refused 125 "built here"
    assert_equal "$(find "$MSB_HOME/tmp" -mindepth 1 -maxdepth 1 ! -name lock)" ""
}

@test "a registry without TLS has to be named" {
    push_image plain
    MSB_INSECURE_REGISTRIES='' run --separate-stderr msb pull "$REGISTRY/plain"
    assert_refused 125 "$REGISTRY"
    assert_contains "$stderr" "--insecure"
    MSB_INSECURE_REGISTRIES='' msb pull --insecure "$REGISTRY/plain"
}

@test "a registry that is down or has no such image is told" {
    run --separate-stderr msb pull "$REGISTRY/nothing:1"
    assert_refused 125 "has no nothing:1"
    MSB_INSECURE_REGISTRIES=127.0.0.1:1 run --separate-stderr msb pull 127.0.0.1:1/x
    assert_refused 125 "127.0.0.1:1"
    assert_contains "$stderr" "check the network"
    run --separate-stderr msb pull 'no such name'
    assert_refused 125 "not the name of an image"
    run --separate-stderr msb pull python
    assert_refused 125 "msb prepare"
}

@test "credentials: wrong ones are refused, right ones are kept for their owner only" {
    htpasswd -Bbc "$BATS_TEST_TMPDIR/passwords" robot 'pa:ss word' 2>/dev/null
    start_registry "$BATS_TEST_TMPDIR/private" "{htpasswd: {realm: tests, path: \"$BATS_TEST_TMPDIR/passwords\"}}"
    export MSB_INSECURE_REGISTRIES=$REGISTRY
    push_image plain --dest-creds 'robot:pa:ss word'
    assert_not_pulled plain "msb login"
    run --separate-stderr msb login "$REGISTRY" -u robot --password-stdin <<<wrong
    assert_refused 125 "refuses"
    run msb login "$REGISTRY" -u robot --password-stdin <<<'pa:ss word'
    assert_equal "$output" "logged in to $REGISTRY"
    assert_equal "$(stat -c %a "$MSB_HOME/credentials.json")" 600
    msb pull "$REGISTRY/plain"
    msb logout "$REGISTRY"
    msb rmi "$REGISTRY/plain"
    assert_not_pulled plain "msb login"
    run --separate-stderr msb logout "$REGISTRY"
    assert_refused 125 "no credentials"
    # docker's own file
    mkdir "$BATS_TEST_TMPDIR/docker"
    printf '{"auths": {"%s": {"auth": "%s"}}}' "$REGISTRY" "$(printf 'robot:pa:ss word' | base64)" >"$BATS_TEST_TMPDIR/docker/config.json"
    DOCKER_CONFIG=$BATS_TEST_TMPDIR/docker msb pull "$REGISTRY/plain"
}

@test "tokens are fetched from where the registry says, with and without a password" {
    local folder=$BATS_TEST_TMPDIR
    openssl req -x509 -newkey rsa:2048 -nodes -keyout "$folder/key" -out "$folder/certificate" -subj /CN=tests -days 2 2>/dev/null
    python3 "$BATS_TEST_DIRNAME/token_server.py" "$folder/key" "$folder/certificate" registry >"$folder/address" 3>&- &
    STARTED+=("$!")
    within 20 test -s "$folder/address"
    start_registry "$folder/private" "{token: {realm: \"http://$(cat "$folder/address")/token\", service: registry, issuer: tests,
        rootcertbundle: \"$folder/certificate\"}}"
    export MSB_INSECURE_REGISTRIES=$REGISTRY
    push_image plain --dest-creds robot:secret
    PUSH_BELOW=public/ push_image layers --dest-creds robot:secret
    msb pull "$REGISTRY/public/layers"
    assert_not_pulled plain "msb login"
    run --separate-stderr msb login "$REGISTRY" -u robot --password-stdin <<<wrong
    assert_refused 125 "refuses this name or password"
    msb login "$REGISTRY" -u robot --password-stdin <<<secret
    msb pull "$REGISTRY/plain"
    msb logout "$REGISTRY"
}

@test "a full disk is told and leaves nothing behind" {
    needs_root
    push_image large
    local small=$BATS_TEST_TMPDIR/small
    mkdir "$small"
    mount -t tmpfs -o size=40m none "$small"
    MSB_HOME=$small run --separate-stderr msb pull "$REGISTRY/large"
    local left
    left=$(find "$small" -name '*.erofs' -o -path '*/tmp/work*')
    umount "$small"
    assert_refused 125 "pace"
    assert_contains "$stderr" "MSB_HOME"
    assert_equal "$left" ""
    mount -t tmpfs -o size=10m none "$small"
    MSB_HOME=$small run --separate-stderr msb pull "$REGISTRY/large"
    umount "$small"
    assert_refused 125 "layers need"
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

@test "an image goes by the front of its digest too" {
    local digest
    pull scratch
    digest=$(msb images | awk '/scratch/ { print $2 }')
    run --separate-stderr msb image inspect "${digest#sha256:}"
    assert_contains "$output" "$REGISTRY/scratch:latest"
    skopeo copy --quiet --src-tls-verify=false --dest-tls-verify=false "docker://$REGISTRY/scratch:latest" "docker://$REGISTRY/twin:latest"
    msb pull --quiet "$REGISTRY/twin"
    run --separate-stderr msb rmi "$digest"
    assert_refused 125 "several images"
    assert_contains "$stderr" "$REGISTRY/twin:latest"
    msb rmi "$REGISTRY/twin"
    msb rmi "$digest"
    run --separate-stderr msb rmi "$digest"
    assert_refused 125 "not in the store"
}

@test "of an archive with several images, one is chosen" {
    local several=$BATS_TEST_TMPDIR/several archive=$BATS_TEST_TMPDIR/archive.tar
    make_layout plain
    make_layout scratch
    skopeo copy --quiet "oci:$BATS_FILE_TMPDIR/layouts/plain:latest" "oci:$several:one"
    skopeo copy --quiet "oci:$BATS_FILE_TMPDIR/layouts/scratch:latest" "oci:$several:two"
    run --separate-stderr msb image import "$several" localhost/several
    assert_refused 125 "several images"
    assert_contains "$stderr" "--tag: one, two"
    msb image import "$several" localhost/several --tag two
    run --separate-stderr msb exe localhost/several --quiet
    assert_equal "$output" "from scratch"
    skopeo copy --quiet "oci:$several:two" "docker-archive:$archive:localhost/first:1" --additional-tag localhost/second:2
    msb image import "$archive" --tag 2
    msb image inspect localhost/second:2 >/dev/null
    run --separate-stderr msb image import "$archive" --tag 3
    assert_refused 125 "no image with the tag 3"
}
