#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2154 # variables meant inside; stderr is set by bats
# msb exe and msb exec: streams, exit codes, settings, code, terminals.
load helpers

in_python() {
    msb exe python "$@"
}

@test "code prints" {
    run --separate-stderr in_python -c 'print(6*7)'
    assert_equal "$output" 42
    assert_equal "$stderr" ""
    assert_equal "$status" 0
}

@test "timing tells the steps and their sum" {
    run --separate-stderr in_python --timing -c 'print(6*7)'
    assert_equal "$output" 42
    local step
    for step in 'image and template' name machine adoption 'first output' stop; do
        grep -qE "^(msb|keeper|sandbox) +$step +[0-9]+$" <<<"$stderr" || { echo "$step: $stderr"; return 1; }
    done
    awk '$1 == "altogether" { whole = $2 } $NF ~ /^[0-9]+$/ && $1 != "altogether" { sum += $NF }
        END { exit !(whole > 0 && sum < whole * 1.1 && sum > whole * 0.9) }' <<<"$stderr"
}

@test "a command's exit code is passed through" {
    run in_python -- sh -c 'exit 7'
    assert_equal "$status" 7
}

@test "a signal is told as 128+n" {
    run in_python -- sh -c 'kill -SEGV $$'
    assert_equal "$status" 139
}

@test "stdout and stderr stay apart" {
    run --separate-stderr in_python -- sh -c 'echo out; echo err >&2'
    assert_equal "$output" out
    assert_equal "$stderr" err
}

@test "stdin arrives whole" {
    local data="$BATS_TEST_TMPDIR/data"
    head -c 8M /dev/urandom >"$data"
    run in_python -- sha256sum <"$data"
    assert_equal "${output%% *}" "$(sha256sum <"$data" | cut -d' ' -f1)"
}

@test "large output arrives whole" {
    in_python -- sh -c 'head -c 20M /dev/urandom >/tmp/data; cat /tmp/data; sha256sum </tmp/data >&2' \
        >"$BATS_TEST_TMPDIR/copy" 2>"$BATS_TEST_TMPDIR/sum"
    assert_equal "$(stat -c %s "$BATS_TEST_TMPDIR/copy")" 20971520
    assert_equal "$(sha256sum <"$BATS_TEST_TMPDIR/copy")" "$(cat "$BATS_TEST_TMPDIR/sum")"
}

@test "a slow reader gets everything" {
    run bash -c '"$MSB" exe python -- head -c 3M /dev/zero | { sleep 1; wc -c; }'
    assert_equal "$output" 3145728
}

@test "/dev/stdout and /dev/stderr can be opened" {
    run --separate-stderr in_python -- sh -c 'echo out >/dev/stdout; echo err >/dev/stderr'
    assert_equal "$output" out
    assert_equal "$stderr" err
}

@test "the end does not wait for stdin" {
    run timeout 10 "$MSB" exe python -- echo hi < <(exec sleep 20)
    assert_equal "$output" hi
    assert_equal "$status" 0
}

@test "an unknown command gives 127" {
    run --separate-stderr -127 in_python -- no-such-command
    assert_refused 127 no-such-command
}

@test "a file that is no program gives 126" {
    run --separate-stderr in_python -- /etc/passwd
    assert_refused 126 /etc/passwd
}

@test "a closed stdin is an empty one" {
    # In a shell of its own: bats takes a closed descriptor 0 for itself.
    run timeout 10 bash -c '"$MSB" exe python -- sh -c "cat; echo done" <&-'
    assert_equal "$output" "done"
}

@test "output that cannot be written is an error" {
    run --separate-stderr bash -c '"$MSB" exe python -- echo lost >/dev/full'
    [ "$status" -ne 0 ]
    assert_contains "$stderr" "msb: "
}

@test "a reader that leaves ends the command" {
    run timeout 20 bash -c '"$MSB" exe python -- yes | head -1'
    assert_equal "$output" y
    assert_equal "$status" 0
}

@test "environment variables are set or passed on" {
    export MSB_TEST_COLOUR=blue
    run in_python --env 'A=x y=z' -e MSB_TEST_COLOUR -- sh -c 'echo "$A,$MSB_TEST_COLOUR,$USER"'
    assert_equal "$output" "x y=z,blue,user"
    run in_python -e MSB_TEST_COLOUR -c 'import os; print(os.environ["MSB_TEST_COLOUR"])'
    assert_equal "$output" blue
}

@test "the working folder is chosen" {
    run in_python -- pwd
    assert_equal "$output" /workspace
    run in_python --workdir /usr/share -- pwd
    assert_equal "$output" /usr/share
    run in_python --workdir /usr/share -c 'import os; print(os.getcwd())'
    assert_equal "$output" /usr/share
    run --separate-stderr in_python --workdir /nowhere -- pwd
    assert_refused 126 /nowhere
}

@test "the user is chosen" {
    run in_python -- id -u
    assert_equal "$output" 1000
    run in_python --user root -- id -u
    assert_equal "$output" 0
    run in_python --user 1234:56 -- sh -c 'echo $(id -u) $(id -g)'
    assert_equal "$output" "1234 56"
    run --separate-stderr in_python --user nobody-here -- true
    assert_refused 126 nobody-here
}

@test "sudo needs no password" {
    needs_machine
    run in_python -- sudo id -u
    assert_equal "$output" 0
}

@test "the folders of all three systems are one" {
    run in_python -- sh -c 'echo hello >/mnt/data/a; cat /workspace/a /home/user/a; echo ~'
    assert_equal "$output" $'hello\nhello\n/home/user'
}

@test "memory and processors are as asked" {
    needs_machine
    run in_python --memory 512 --cpus 2 -- sh -c 'nproc; free -m | awk "/^Mem:/ {print \$2}"'
    assert_equal "$status" 0
    assert_equal "${lines[-2]}" 2
    [ "${lines[-1]}" -gt 400 ]
    [ "${lines[-1]}" -le 512 ]
}

@test "a timeout gives 124 and kills grandchildren" {
    start_box timeout-box
    run --separate-stderr msb exec timeout-box --timeout 1 -- \
        sh -c 'setsid -f sleep 1000; (trap "" TERM HUP; sleep 1000) & sleep 1000'
    assert_equal "$status" 124
    assert_contains "$stderr" "longer than 1 s"
    run msb exec timeout-box -- pgrep sleep
    assert_equal "$status" 1
    msb stop timeout-box
}

@test "a timeout ends code, too" {
    run --separate-stderr in_python --timeout 0.5 -c 'while True: pass'
    assert_equal "$status" 124
}

# ---- code ------------------------------------------------------------------------------------

@test "code of any shape runs as one unit" {
    run --separate-stderr in_python -c '
def f(n):

    total = 0

    for i in range(n):
        total += i

    return total
class C:

    x = """a

b"""
f(10), C.x
'
    assert_equal "$output" "(45, 'a\\n\\nb')"
    assert_equal "$stderr" ""
}

@test "the last expression's value is shown, None is not" {
    run in_python -c $'x = 5\nx * 2'
    assert_equal "$output" 10
    run in_python -c 'print("a")'
    assert_equal "$output" a
}

@test "empty code does nothing" {
    run timeout 10 "$MSB" exe python -c ''
    assert_equal "$status" 0
    run timeout 10 "$MSB" exe python -c - </dev/null
    assert_equal "$status" 0
}

@test "an error shows its traceback on stderr and gives 1" {
    run --separate-stderr in_python -c $'print("before")\n1/0'
    assert_equal "$status" 1
    assert_equal "$output" before
    assert_contains "$stderr" "line 2"
    assert_contains "$stderr" "ZeroDivisionError: division by zero"
    run --separate-stderr in_python -c 'def f(:'
    assert_equal "$status" 1
    assert_contains "$stderr" SyntaxError
}

@test "sys.exit gives its code" {
    run in_python -c 'import sys; sys.exit(3)'
    assert_equal "$status" 3
}

@test "code comes from stdin" {
    run in_python -c - <<<$'for i in range(2):\n    print(i)\n'
    assert_equal "$output" $'0\n1'
}

@test "long code runs" {
    local code="$BATS_TEST_TMPDIR/code"
    { yes '# nothing but a comment' | head -c 1M; printf '\nprint("end")\n'; } >"$code"
    run in_python -c - <"$code"
    assert_equal "$output" end
}

@test "output of child processes of code arrives" {
    run --separate-stderr in_python -c 'import os; print(1); os.system("echo 2; echo 3 >&2"); print(4)'
    assert_contains "$output" 2
    assert_equal "$stderr" 3
}

@test "variables and files stay between calls" {
    msb exe python --detach --name state-box -c 'x = 6'
    run msb exec state-box -c $'def f():\n    return x * 7\nopen("note", "w").write("kept")\nf()'
    assert_equal "$output" 42
    run msb exec state-box -c 'f() + 1'
    assert_equal "$output" 43
    run msb exec state-box -- cat /workspace/note
    assert_equal "$output" kept
    msb stop state-box
}

@test "calls of one sandbox run side by side" {
    start_box both-box
    # Each waits for the other's file.
    msb exec both-box -- sh -c 'touch /tmp/a; timeout 20 sh -c "until [ -e /tmp/b ]; do :; done"' &
    local first=$!
    msb exec both-box -- sh -c 'touch /tmp/b; timeout 20 sh -c "until [ -e /tmp/a ]; do :; done"'
    wait "$first"
    msb stop both-box
}

@test "node runs code and commands" {
    run --separate-stderr msb exe node -c $'const f = (n) => {\n\n  return n * 7;\n};\nf(6)'
    assert_equal "$output" 42
    assert_equal "$stderr" ""
    run --separate-stderr msb exe node -c 'throw new Error("boom")'
    assert_equal "$status" 1
    assert_contains "$stderr" "boom"
    run msb exe node -c 'await new Promise((r) => setTimeout(r, 10)); "late"'
    assert_contains "$output" late
    run msb exe node -- node -p 1+1
    assert_equal "$output" 2
}

@test "variables of node stay between calls" {
    msb exe node --detach --name node-box -c 'let x = 6; const y = 1; function f() { return x + y }'
    run msb exec node-box --language node -c 'x = 7; f()'
    assert_equal "$output" 8
    msb stop node-box
}

@test "a language that is not there is refused" {
    start_box language-box
    run --separate-stderr msb exec language-box --language cobol -c 1
    assert_refused 125 cobol
    msb stop language-box
}

@test "exec into nothing is refused" {
    run --separate-stderr msb exec no-such-box -- true
    assert_refused 125 no-such-box
}

# ---- terminals -------------------------------------------------------------------------------

# Runs a command on a terminal of 40x100; the rest as terminal.py says.
on_terminal() {
    timeout 15 python3 "$BATS_TEST_DIRNAME/terminal.py" "$@"
}

@test "without a terminal there is none inside" {
    run in_python -- sh -c 'tty' </dev/null
    assert_equal "$output" "not a tty"
}

@test "a terminal has its size and kind inside" {
    TERM=vt100 run on_terminal -- "$MSB" exe python -- sh -c 'tty; stty size; echo $TERM'
    assert_contains "$output" /dev/pts/
    assert_contains "$output" "40 100"
    assert_contains "$output" vt100
    assert_equal "$status" 0
}

@test "--no-tty leaves the terminal out" {
    run on_terminal -- "$MSB" exe python --no-tty -- tty
    assert_contains "$output" "not a tty"
}

@test "Ctrl-C reaches the command" {
    run on_terminal --when ready --type '\x03' -- \
        "$MSB" exe python -- sh -c 'trap "echo caught; exit 9" INT; echo ready; while :; do sleep 0.1; done'
    assert_contains "$output" caught
    assert_equal "$status" 9
}

@test "an interactive interpreter answers and ends" {
    run on_terminal --when '>>> ' --type '6*7\n' --when '>>> ' --type '\x04' -- "$MSB" exe python
    assert_contains "$output" 42
    assert_equal "$status" 0
}

@test "a terminal that changes its size is followed" {
    run on_terminal --when ready --resize 50x120 -- "$MSB" exe python -- \
        bash -c 'trap "stty size; exit 5" WINCH; echo ready; while :; do sleep 0.1; done'
    assert_contains "$output" "50 120"
    assert_equal "$status" 5
}

@test "nothing is left" {
    assert_nothing_left
}

@test "--json gives the whole answer" {
    run --separate-stderr msb exe python --json -c 'import os, sys
print("one")
print("two", file=sys.stderr, flush=True)
os.write(1, b"\xff")
{"a": 1}'
    [ "$status" -eq 0 ]
    python3 - "$output" <<'END'
import json, sys
answer = json.loads(sys.argv[1])
assert {"stream": "stdout", "text": "one\n"} in answer["output"], answer
assert {"stream": "stderr", "text": "two\n"} in answer["output"], answer
assert {"stream": "stdout", "text": "\ufffd"} in answer["output"] and answer["invalid_utf8"], answer
assert answer["results"][0]["text"] == "{'a': 1}", answer
assert answer["verdict"] == "exited" and answer["exit_code"] == 0 and answer["duration_us"], answer
assert "error" not in answer and "failure" not in answer, answer
END
    run --separate-stderr msb exe python --json -c '1/0'
    [ "$status" -eq 1 ]
    python3 -c 'import json, sys
assert json.loads(sys.argv[1])["error"]["name"] == "ZeroDivisionError"' "$output"
}

@test "a script of an image is a program that it brings, with arguments behind it" {
    assert_equal "$(msb exe python~echo -- one 'two words' </dev/null)" "one two words"
    assert_equal "$(echo 'print(6*7)' | msb exe python~start -- -)" 42
    run -127 --separate-stderr msb exe python~nonsense </dev/null
    assert_contains "$stderr" nonsense
    run --separate-stderr msb exe python~
    assert_refused 2 "which script"
    run --separate-stderr msb exe python~pip -c 1
    assert_refused 2 "both code and a command"
}
