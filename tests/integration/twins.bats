#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2154 # variables meant inside; stderr is set by bats
# Clones of one template never give the same random numbers, and know who and when they are.
load helpers

CLONES=4

# Runs the same in several clones at once; the outputs follow each other.
in_clones() {
    local i image=$1
    shift
    local -a jobs=()
    for ((i = 0; i < CLONES; i++)); do
        msb exe "$image" "$@" </dev/null >"$BATS_TEST_TMPDIR/clone-$i" &
        jobs+=("$!")
    done
    for i in "${jobs[@]}"; do
        wait "$i"
    done
    cat "$BATS_TEST_TMPDIR"/clone-*
}

# Lines are NAME VALUE: every clone gave as many, and no value came twice.
assert_all_different() {
    local repeated
    assert_equal "$(wc -l <<<"$1")" $((CLONES * $2))
    repeated=$(sort <<<"$1" | uniq -d)
    assert_equal "$repeated" ""
    [ "$(awk 'NF != 2' <<<"$1")" = "" ]
}

@test "the warm python differs in every source of randomness" {
    local values
    values=$(in_clones python -c '
import os, random, secrets, socket, ssl, tempfile, uuid
import numpy
print("random", random.random())
print("random.SystemRandom", random.SystemRandom().random())
print("numpy", numpy.random.rand())
print("numpy.default_rng", numpy.random.default_rng().random())
print("uuid4", uuid.uuid4())
print("uuid1", uuid.uuid1())
print("secrets", secrets.token_hex())
print("urandom", os.urandom(16).hex())
print("ssl", ssl.RAND_bytes(16).hex())
print("temporary", tempfile.mktemp())
print("hostname", socket.gethostname())
print("machine-id", open("/etc/machine-id").read().strip())
print("boot-id", open("/proc/sys/kernel/random/boot_id").read().strip())
')
    assert_all_different "$values" 13
}

@test "what was loaded out of sight differs, whichever of it is imported first" {
    local values
    values=$(in_clones python -c '
import pandas
print("numpy", pandas.Series(range(10**9, 10**9 + 10**5)).sample(1).iloc[0])
import random
print("random", random.random())
')
    assert_all_different "$values" 2
    values=$(in_clones python -c '
import datetime, tempfile
print("temporary", tempfile.mktemp())
import asyncio, ssl
print("ssl", ssl.RAND_bytes(16).hex())
')
    assert_all_different "$values" 2
}

@test "threads may import what was loaded out of sight all at once" {
    run msb exe python -c '
import sys, threading
sys.setswitchinterval(1e-6)
names = ("random", "tempfile", "datetime", "decimal", "uuid", "ssl", "asyncio", "pandas", "numpy")
barrier, failures = threading.Barrier(len(names)), []
def load(name):
    barrier.wait()
    try:
        assert __import__(name) is __import__(name) and __import__(name).__spec__.name == name
    except Exception as error:
        failures.append((name, repr(error)))
threads = [threading.Thread(target=load, args=(name,)) for name in names]
for thread in threads: thread.start()
for thread in threads: thread.join()
import numpy, pandas
print(failures, pandas.Series([1, 2]).sum(), sys.modules["numpy"] is pandas.core.series.np)
'
    assert_equal "$output" "[] 3 True"
}

@test "what was loaded out of sight is not loaded again because somebody has asked for it" {
    run msb exe python -c '
import importlib.util
loaded = [importlib.util.find_spec(name).name for name in ("pandas", "numpy")]
import numpy, pandas, sys
print(loaded, sys.modules["numpy"] is pandas.core.series.np, type(pandas.__spec__.loader).__name__)
'
    assert_equal "$output" "['pandas', 'numpy'] True SourceFileLoader"
}

@test "new processes differ in every source of randomness" {
    local values
    values=$(in_clones python -- sh -c '
        echo openssl $(openssl rand -hex 16)
        echo uuid $(cat /proc/sys/kernel/random/uuid)
        echo urandom $(head -c 16 /dev/urandom | od -An -tx1 | tr -d " ")
        echo random $(python3 -c "import random; print(random.random())")
        echo hash $(python3 -c "print(hash(\"a\"))")
        echo shell $(bash -c "echo \$RANDOM\$RANDOM\$RANDOM")
        echo file $(mktemp)')
    assert_all_different "$values" 7
}

@test "keys differ" {
    local values
    values=$(in_clones python -- sh -c '
        echo key $(openssl genpkey -algorithm ed25519 2>/dev/null | sha256sum)' | sed 's/ *-$//')
    assert_all_different "$values" 1
}

@test "the warm node differs in every source of randomness" {
    local values
    values=$(in_clones node -c '
const crypto = require("crypto");
console.log("random", Math.random());
console.log("uuid", crypto.randomUUID());
console.log("bytes", crypto.randomBytes(16).toString("hex"));
console.log("key", crypto.generateKeyPairSync("ed25519").privateKey.export({type: "pkcs8", format: "der"}).toString("hex"));
')
    assert_all_different "$values" 4
}

@test "the host name is the sandbox's name" {
    run msb exe python --name my-box -- hostname
    assert_equal "$output" my-box
}

@test "the clock is right" {
    local before inside after
    before=$(date +%s)
    inside=$(msb exe python -c 'import time; print(int(time.time()))')
    after=$(date +%s)
    [ "$inside" -ge $((before - 2)) ]
    [ "$inside" -le $((after + 2)) ]
    inside=$(msb exe node -- date +%s)
    [ "$inside" -ge $((before - 2)) ]
}

@test "nothing is left" {
    assert_nothing_left
}
