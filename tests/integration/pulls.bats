#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2030,SC2031,SC2154 # variables meant inside or for one test; stderr is set by bats
# How images come from registries and archives into the store and go: a real registry.
load helpers
load images

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
