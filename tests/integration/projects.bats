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
    run --separate-stderr msb add w+b --image python
    assert_refused 1 '"w+b" cannot be used'
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

# ---- running --------------------------------------------------------------------------------------

# A project whose sandboxes say what they do.
make_shop() {
    cat >Sandboxfile <<'END'
sandboxes:
  web:
    image: python
    depends_on: [db]
    envs: [WHO=web]
    scripts:
      start: echo "$WHO starts"; exec sleep 1000
      test: echo "testing $1 of $#"
  db:
    image: python
    ports: ["0:5432"]
    workdir: /tmp
    command: [sh, -c, "echo db begins; sleep 0.3; exec python3 -m http.server 5432"]
END
}

# Nothing of the project runs, whatever a test did.
teardown() {
    [ ! -e Sandboxfile ] || msb clean --all --force >&2 || true
    [ -n "$BATS_TEST_COMPLETED" ] || msb stop --all >&2
}

# log_has NAME PART
log_has() {
    [[ $(msb log "$1") == *"$2"* ]]
}

state_of() {
    msb status --json | python3 -c '
import json, sys
print(*[box.get(sys.argv[2]) for box in json.load(sys.stdin) if box["name"] == sys.argv[1]])' "$@"
}

@test "run takes the line, the named script, start, the command, the shell, in this order" {
    cat >Sandboxfile <<'END'
sandboxes:
  all: {image: python, shell: bash, command: [echo, command], scripts: {start: echo start $1, other: 'echo other $0 $1'}}
  command: {image: python, command: [echo, command]}
  line: {image: python, command: echo line}
  shell: {image: python, shell: bash}
  nothing: {image: python}
END
    run --separate-stderr msb run all -- one
    assert_equal "$output" "start one"
    run --separate-stderr msb run all~other -- one
    assert_equal "$output" "other other one"
    run --separate-stderr msb r all~other -e 'echo exec' -- one two
    assert_equal "$output" "exec one two"
    run --separate-stderr msb run command -- one
    assert_equal "$output" "command one"
    run --separate-stderr msb run line
    assert_equal "$output" "line"
    run --separate-stderr msb run shell -- -c 'echo $BASH; exit 7'
    assert_equal "$output" "/usr/bin/bash"
    assert_equal "$status" 7
    run --separate-stderr msb run nothing
    assert_refused 1 "the sandbox nothing has nothing to run"
    run --separate-stderr msb run all~missing
    assert_refused 1 'has no script "missing"'
    run --separate-stderr msb run nobody
    assert_refused 1 'has no sandbox "nobody"'
    assert_nothing_left
}

@test "settings of the file are those of the sandbox" {
    mkdir data
    echo hello >data/file
    printf '# of the shop\nFROM_FILE=file\nBOTH=file\n' >settings.env
    cat >Sandboxfile <<'END'
sandboxes:
  box:
    image: microsandbox/python
    memory: 300
    volumes: ["./data:/data:ro"]
    env_files: [settings.env]
    envs: [BOTH=list]
    workdir: /data
    scripts:
      start: pwd; cat file; echo $FROM_FILE $BOTH; touch x 2>/dev/null || echo read-only; hostname
END
    cd /
    run --separate-stderr msb run box --file "$OLDPWD"
    cd "$OLDPWD"
    assert_equal "$output" $'/data\nhello\nfile list\nread-only\nbox'
    rm settings.env
    run --separate-stderr msb run box
    assert_refused 125 "Sandboxfile:2:3: the sandbox box: "
    assert_contains "$stderr" settings.env
}

@test "up starts in order and returns when all are ready, down stops them" {
    make_shop
    run --separate-stderr msb up --detach
    assert_equal "$status" 0
    assert_contains "${lines[0]}" "started db, ports "
    assert_equal "${lines[1]}" "started web"
    port=$(sed -n 's/started db, ports \([0-9]*\):5432/\1/p' <<<"$output")
    curl --silent --fail --max-time 10 "http://127.0.0.1:$port/" >index
    run --separate-stderr msb up --detach
    assert_equal "$output" $'db runs already\nweb runs already'
    assert_equal "$(state_of web start_state)" running
    run --separate-stderr msb run web~test -- a b
    assert_equal "$output" "testing a of 2"
    run --separate-stderr msb run web
    assert_refused 1 "the sandbox web runs already"
    run --separate-stderr msb shell web -- -c 'echo $WHO'
    assert_equal "$output" web
    run --separate-stderr msb status
    assert_contains "$output" "NAME  STATE    CPU"
    run --separate-stderr msb down
    assert_equal "$output" $'stopped web\nstopped db'
    run --separate-stderr msb down
    assert_equal "$output" ""
    assert_equal "$(state_of web state)" stopped
    assert_nothing_left
}

@test "two at once start everything once" {
    make_shop
    "$MSB" up --detach >first &
    "$MSB" up --detach >second
    wait $!
    assert_equal "$(cat first second | grep -c '^started')" 2
    assert_equal "$(cat first second | grep -c 'runs already$')" 2
}

@test "up of one starts what it depends on, down of one leaves the rest" {
    make_shop
    echo '  other: {image: python}' >>Sandboxfile
    run --separate-stderr msb up web --detach
    assert_equal "${#lines[@]}" 2
    run --separate-stderr msb down web other
    assert_equal "$output" $'stopped web\nother does not run'
    assert_equal "$(state_of db state)" running
    run --separate-stderr msb down ../default/other
    assert_refused 1 '"../default/other" cannot be used'
    run --separate-stderr msb down nobody
    assert_refused 1 'has no sandbox "nobody"'
}

@test "up in front shows the output with names and stops all at the end" {
    cat >Sandboxfile <<'END'
sandboxes:
  long: {image: python, command: [sh, -c, 'echo one; echo two >&2; sleep 0.3; printf three; exit 4']}
  s: {image: python, command: [echo, short]}
END
    run --separate-stderr msb up
    assert_equal "$status" 4
    assert_contains "$output" "long | one"
    assert_contains "$output" "s    | short"
    assert_contains "$output" $'long | three\nlong ended with exit code 4'
    assert_contains "$stderr" "long | two"
    assert_nothing_left
}

@test "an interrupt stops everything that up has started" {
    make_shop
    "$MSB" up >out 2>&1 &
    within 20 grep -q 'web | web starts' out
    kill -INT $!
    code=0
    wait $! || code=$?
    assert_equal "$code" 130
    assert_nothing_left
}

@test "up that is killed takes its sandboxes with it" {
    make_shop
    "$MSB" up >out 2>&1 &
    within 20 grep -q 'web | web starts' out
    kill -KILL $!
    assert_nothing_left
}

@test "up in front tells that a sandbox has gone, and ends when none is left" {
    printf 'sandboxes:\n  bare: {image: python}\n  busy: {image: python, command: [sleep, "1000"]}\n' >Sandboxfile
    "$MSB" up >out 2>&1 &
    within 20 eval '[ "$(grep -c started out)" = 2 ]'
    kill -KILL "$(state_of bare keeper_pid)"
    within 10 grep -q "^bare: the sandbox ended" out
    msb down busy
    code=0
    wait $! || code=$?
    assert_equal "$code" 125
    grep -q "^busy: the sandbox ended" out
    within 10 eval 'msb ps >/dev/null; nothing_left'
}

@test "when one cannot be started, the others are stopped again" {
    make_shop
    cat >>Sandboxfile <<'END'
  broken: {image: python, depends_on: [db], command: [/no/such/program]}
END
    run --separate-stderr msb up --detach
    assert_equal "$status" 125
    assert_contains "$stderr" ": the sandbox broken: "
    assert_contains "$stderr" "/no/such/program"
    assert_nothing_left
}

@test "a command that ends before its port is there is a failure" {
    cat >Sandboxfile <<'END'
sandboxes:
  deaf: {image: python, ports: ["0:80"], command: [sh, -c, 'echo cannot; exit 9']}
END
    run --separate-stderr msb up --detach
    assert_equal "$status" 125
    assert_contains "$stderr" "deaf: its start command ended with exit code 9 before port 80"
    assert_contains "$stderr" "msb log deaf"
    assert_nothing_left
    assert_equal "$(msb log deaf)" cannot
}

@test "an image that is not there is told with its place" {
    printf 'sandboxes:\n  box:\n    image: no-such-image\n' >Sandboxfile
    run --separate-stderr msb up --detach
    assert_refused 1 "Sandboxfile:2:3: the sandbox box: "
    assert_contains "$stderr" no-such-image
}

@test "a port that is taken is told with the sandbox and the remedy" {
    cat >Sandboxfile <<'END'
sandboxes:
  one: {image: python, ports: ["0:80"]}
END
    msb up --detach
    port=$(state_of one ports | grep -o "'host': [0-9]*" | tr -dc 0-9)
    echo "  two: {image: python, ports: ['$port:80']}" >>Sandboxfile
    run --separate-stderr msb up --detach
    assert_equal "$status" 125
    assert_contains "$stderr" "Sandboxfile:3:3: the sandbox two: port $port of 127.0.0.1 cannot be published"
    assert_contains "$stderr" "choose another port"
    assert_equal "$(state_of one state)" running
}

@test "two that want the same port are told before anything starts" {
    cat >Sandboxfile <<'END'
sandboxes:
  one: {image: python, ports: ["8123:80"]}
  two: {image: python, ports: ["127.0.0.1:8123:81"]}
END
    run --separate-stderr msb up --detach
    assert_refused 1 "Sandboxfile:3:3: the sandbox two: port 8123 of 127.0.0.1 is published by one already"
    assert_contains "$stderr" "0 for any free one"
}

@test "log shows the run, its last lines, and what is added" {
    cat >Sandboxfile <<'END'
sandboxes:
  talker: {image: python, command: [sh, -c, 'seq 1 5; until [ -e /tmp/go ]; do sleep 0.05; done; echo six; sleep 1000']}
END
    run --separate-stderr msb log talker
    assert_refused 1 "the sandbox talker has not run yet"
    msb up --detach
    within 10 log_has talker 5
    assert_equal "$(msb log talker --tail 2)" $'4\n5'
    "$MSB" log talker --tail 1 --follow >out &
    within 10 grep -q 5 out
    msb run talker --exec 'touch /tmp/go'
    within 10 grep -q six out
    msb down
    wait $!
    assert_equal "$(cat out)" $'5\nsix'
    assert_equal "$(msb log talker --follow)" $'1\n2\n3\n4\n5\nsix'
    run --separate-stderr msb log nobody
    assert_refused 1 'has no sandbox "nobody"'
}

start_is_over() {
    [ "$(state_of "$1" start_exit_code)" = 0 ]
}

@test "run --detach goes on by itself" {
    make_shop
    run --separate-stderr msb run web~test --detach
    assert_equal "$output" "started web"
    within 10 log_has web "testing  of 0"
    within 10 start_is_over web
    assert_contains "$(msb status)" "running, ended with 0"
    run --separate-stderr msb run web --detach --exec 'echo again'
    assert_equal "$status" 0
}

# ---- apply ----------------------------------------------------------------------------------------

@test "apply starts, restarts and stops what the file asks for, and nothing a second time" {
    make_shop
    echo '  old: {image: python}' >>Sandboxfile
    msb apply --detach
    kept=$(state_of db keeper_pid)
    run --separate-stderr msb apply --detach
    assert_equal "$output" "nothing to do"
    msb remove old
    msb add new --image python
    sed -i s/WHO=web/WHO=net/ Sandboxfile
    run --separate-stderr msb up --detach
    assert_contains "$output" 'web runs already, with other settings: "msb apply" restarts it'
    run --separate-stderr msb apply --detach
    assert_equal "$status" 0
    assert_equal "$output" $'stopped web: its settings have changed\nstopped old: it is not in the file any more\nstarted web'
    assert_equal "$(state_of db keeper_pid)" "$kept"
    within 10 log_has web "net starts"
    run --separate-stderr msb apply --detach
    assert_equal "$output" "nothing to do"
}

@test "apply notices a changed start command and a changed environment file" {
    echo A=1 >one.env
    printf 'sandboxes:\n  box: {image: python, env_files: [one.env], command: [sleep, "1000"]}\n' >Sandboxfile
    msb apply --detach
    sed -i s/1000/2000/ Sandboxfile
    run --separate-stderr msb apply --detach
    assert_equal "$output" $'stopped box: its settings have changed\nstarted box'
    echo A=2 >one.env
    run --separate-stderr msb apply --detach
    assert_equal "$output" $'stopped box: its settings have changed\nstarted box'
}

# ---- what stays, and what surrounds projects ------------------------------------------------------

@test "clean removes the logs and files of what has ended, and stops what runs only with --force" {
    make_shop
    msb up --detach
    run --separate-stderr msb clean web
    assert_refused 1 "the sandbox web runs"
    msb down web
    run --separate-stderr msb clean web
    # An empty disk takes what mkfs.ext4 gives it, 1 MB or 3 from one release to the next.
    assert_equal "${output/ and 3 MB/ and 1 MB}" "cleaned web: its log and 1 MB of files"
    run --separate-stderr msb log web
    assert_refused 1 "has not run yet"
    run --separate-stderr msb clean
    assert_refused 2 "which sandboxes"
    run --separate-stderr msb clean --all --force
    assert_contains "$output" "cleaned db: its log"
    assert_equal "$(state_of db state)" stopped
}

@test "an installed sandbox is a command that runs from anywhere" {
    mkdir "it's here"
    cd "it's here"
    printf 'sandboxes:\n  tool: {image: python, scripts: {start: "echo $# $1; exit 5", other: echo other}}\n' >Sandboxfile
    export HOME=$BATS_TEST_TMPDIR
    run --separate-stderr msb install tool
    assert_equal "$output" "$HOME/.local/bin/tool"
    assert_contains "$stderr" "is not in PATH"
    cd /
    run --separate-stderr "$HOME/.local/bin/tool" 'one word' two
    assert_equal "$output" "2 one word"
    assert_equal "$status" 5
    run --separate-stderr msb install tool~other --file "$OLDPWD" second
    assert_equal "$("$HOME/.local/bin/second")" other
    run --separate-stderr msb install tool~missing --file "$OLDPWD"
    assert_refused 1 'has no script "missing"'
    run --separate-stderr msb uninstall tool second
    assert_equal "$status" 0
    [ ! -e "$HOME/.local/bin/tool" ]
    echo mine >"$HOME/.local/bin/tool"
    run --separate-stderr msb uninstall tool
    assert_refused 1 "was not made by msb install"
    run --separate-stderr msb install tool --file "$OLDPWD"
    assert_refused 1 "was not made by msb install"
    cd "$OLDPWD"
}

complete_in_bash() {
    PATH=$(dirname "$MSB"):$PATH bash -c '
        . <(msb completion bash)
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
        _msb
        echo "${COMPREPLY[@]}"' bash "$@"
}

@test "bash completes commands, options and names" {
    msb init
    msb add web worker db --image python
    assert_equal "$(complete_in_bash msb unin)" uninstall
    assert_equal "$(complete_in_bash msb server sto)" stop
    assert_equal "$(complete_in_bash msb add --dep)" --depends-on
    assert_equal "$(complete_in_bash msb rm w)" "web worker"
    assert_equal "$(complete_in_bash msb up --fr)" --fresh
    assert_equal "$(complete_in_bash msb kep)" kept
    assert_contains "$(complete_in_bash msb exe microsandbox/)" microsandbox/python
}

@test "zsh understands its completion" {
    msb completion zsh >_msb
    zsh -n _msb
    zsh -f -c 'autoload -Uz compinit; compinit -u -D; . ./_msb; [ "$_comps[msb]" = _msb ]'
    run --separate-stderr msb completion fish
    assert_refused 2 "which shell"
}

@test "the manual page has every command and no mistakes" {
    msb help --man >msb.1
    run groff -K utf8 -man -ww -z -Tutf8 msb.1
    assert_equal "$output" ""
    for command in $(msb --help | sed -n '/^Commands/,/^$/s/^  \([a-z]*\) .*/\1/p'); do
        grep -q "^\.SS msb $command" msb.1
    done
}

@test "there are no colours but on terminals" {
    printf 'sandboxes:\n  a: {image: python, command: [echo, hello]}\n' >Sandboxfile
    run script --quiet --command "$MSB up" /dev/null
    assert_contains "$output" $'\033[36ma |\033[0m hello'
    NO_COLOR=1 run script --quiet --command "$MSB up" /dev/null
    assert_contains "$output" "a | hello"
    [[ $output != *$'\033['* ]]
}

# ---- groups ---------------------------------------------------------------------------------------

@test "every listing is also JSON" {
    msb init
    msb add box --image python
    msb run box --exec true
    msb up --detach
    for listing in list status ps images snapshots kept doctor version; do
        msb "$listing" --json | python3 -c 'import json, sys; json.load(sys.stdin)'
    done
}

@test "the scope says where a sandbox may connect to" {
    cat >Sandboxfile <<'END'
sandboxes:
  nowhere: {image: python, scope: none}
  inside: {image: python, scope: group}
  outside: {image: python, scope: public}
  anywhere: {image: python, scope: any}
  usual: {image: python}
END
    msb up --detach
    ask='python3 -c "import urllib.request as u; u.urlopen(\"http://10.1.2.3/\", timeout=5)" 2>&1 | tail -1'
    for box in nowhere inside; do
        assert_contains "$(msb run "$box" --exec "$ask")" "Network is unreachable"
    done
    # A proxy answers there, that leads to public addresses only.
    for box in outside anywhere usual; do
        assert_contains "$(msb run "$box" --exec "$ask")" "10.1.2.3 is not of the public internet"
    done
}

@test "the example of the documentation works" {
    cp -r "$REPOSITORY/examples/shop/." .
    awk '/^```yaml/ { on = 1; next } /^```/ { on = 0 } on' "$REPOSITORY/docs/projects.md" | cmp - Sandboxfile
    run --separate-stderr msb up --detach
    assert_equal "$status" 0
    port=$(sed -n 's/started web, ports \([0-9]*\):8000/\1/p' <<<"$output")
    assert_equal "$(curl --silent --max-time 20 "http://127.0.0.1:$port/")" "visitor 1"
    assert_equal "$(msb run web~test)" "visitor 2"
    assert_contains "$(msb log web)" '"GET / HTTP/1.1" 200'
    run --separate-stderr msb down
    assert_equal "$output" $'stopped web\nstopped db'
    assert_nothing_left
}

@test "only those of a group are reached, and only at their ports" {
    cat >Sandboxfile <<'END'
sandboxes:
  server: {image: python, groups: {g: {}}, scope: none, ports: ["0:8080"], command: [sh, -c, 'python3 -m http.server 8081 & exec python3 -m http.server 8080']}
  friend: {image: python, groups: {g: {}}, scope: group}
  stranger: {image: python, scope: group}
END
    msb up --detach
    ask='python3 -c "import socket, sys; socket.create_connection((\"server\", int(sys.argv[1])), 5).close()"'
    msb run friend --exec "$ask 8080"
    run msb run friend --exec "$ask 8081"
    assert_contains "$output" "Connection refused"
    run msb run stranger --exec "$ask 8080"
    assert_contains "$output" "gaierror"
    run msb run server --exec 'cat /etc/hosts'
    [[ $output != *friend* ]]
}

@test "a connection ends when the other does not run, and works when it is there again" {
    cp -r "$REPOSITORY/examples/shop/." .
    msb up --detach
    msb down db
    ask='python3 -c "import urllib.request as u; print(u.urlopen(\"http://db:5432\").read().decode())"'
    run --separate-stderr msb run web --exec "$ask"
    assert_equal "$status" 1
    msb up --detach
    assert_equal "$(msb run web --exec "$ask")" 1
}
