# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# test.sh, boot.sh's command line and .ci/run, in a copy of the tree whose guests are played by a
# stub: a death, a status, a report of the kernel's on any node reaches the closing line, and
# nothing is tried again but what chance.txt lists.

tree=$work/tree
mkdir -p "$tree/src/tools/testing/selftests"/{rdma,kselftest}
cp -r "$TOP/tools" "$tree/"
rm -rf "$tree/tools/testing/host" "$tree"/tools/testing/guest/[0-9]*
# Not these tests again, whatever selects the tests of the copy.
printf '#!/bin/bash\necho 1..0\n' >"$tree/tools/testing/harness.sh"
for name in roots modules programs; do printf '#!/bin/bash\n' >"$tree/tools/$name.sh"; done
# shellcheck disable=SC2016
printf '#!/bin/bash\nif [ "$1" = --source ]; then echo %q; fi\n' "$(realpath --relative-to="$CACHE" "$tree/src")" >"$tree/tools/kernel.sh"
for name in 10-one 11-two; do printf '# SPDX-License-Identifier: GPL-2.0\n# limit: 5\n' >"$tree/tools/testing/guest/$name.sh"; done
printf '# SPDX-License-Identifier: GPL-2.0\n# limit: 5\n# nodes: 2\n' >"$tree/tools/testing/guest/60-pair.sh"
echo '10-one | by chance | * | * | a test' >"$tree/tools/testing/chance.txt"
echo '60-pair* | * | * | * | a test' >>"$tree/tools/testing/chance.txt"
: >"$tree/tools/testing/skips.txt"

# The guests: a scenario defines body NODE TEST TRY, which prints the test's KTAP and returns its
# status, 200 for a death; before, after and console NODE are further lines of the log.
cat >"$tree/tools/boot.sh" <<'STUB'
#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
here=$(dirname "$0")/..
out=$1
rm -rf "$out"/share? && mkdir -p "$out"
body() { printf 'ok 1 - a\n1..1\n'; }
before() { :; }
after() { :; }
console() { :; }
first_lines() { echo "[ 0.0] Linux version 7.2.0"; }
. "$here/scenario"
for node in $(seq "$NODES"); do
    stack=STACK$node stack=${!stack:-$STACK}
    modules="ib_core=rust rdma_rxe=rust"
    [ "$stack" != c ] || modules="ib_core=c rdma_rxe=c"
    share=$out/share$node log=$out/console$node
    mkdir -p "$share/results"
    guest="node=$node kernel=$KERNEL stack=$stack staged=$([ "$stack" = c ] || echo ib_core,rdma_rxe)"
    printf '# guest: boot=1 %s\n# modules: %s\n' "$guest" "$modules" >"$share/results/boot"
    { first_lines; before "$node"; } >"$log"
    dead=
    n=0
    while read -r name _; do
        n=$((n + 1))
        echo "$node $name" >>"$here/tries"
        result=$share/results/$name
        echo "[ 1.0] rdma-test begin $n $name" >>"$log"
        echo "# guest: $guest" >"$result.ktap"
        status=0
        body "$node" "$name" "$(grep -cx "$node $name" "$here/tries")" >>"$result.ktap" || status=$?
        if [ $status = 200 ]; then
            echo "[ 1.1] Kernel panic - not syncing" >>"$log"
            dead=yes
            break
        fi
        printf '# modules: %s\n# ended: %s\n# seconds 1\n' "$modules" $status >>"$result.ktap"
        echo "$name" >>"$share/results/finished"
        echo "[ 1.2] rdma-test end $n $name" >>"$log"
    done <"$SHARE/tests/list"
    if [ -z "$dead" ]; then
        after "$node" >>"$log"
        cp "$log" "$share/dmesg"
        console "$node" >>"$log"
    fi
done
STUB
cat >>"$tree/tools/lib.sh" <<'STUB'
host_cargo() { cat "$TOP/cargo.log"; return "$(cat "$TOP/cargo.status")"; }
STUB

# played T [VAR=VALUE...] <SCENARIO: the suite with these guests; its output is $work/log.
played() {
    local t=$1 status=0
    shift
    cat >"$tree/scenario"
    rm -f "$tree/tries"
    env -u SEATS -u SHORT -u ALONE -u AGAIN -u TEST_DIR T="$t" STACK=rust KERNEL=fast "$@" bash "$tree/tools/test.sh" >"$work/log" 2>&1 </dev/null || status=$?
    cat "$work/log"
    return $status
}
closing() { tail -n 1 "$work/log" | grep -qE "^[0-9]+ passed, $1 failed, 0 skipped\$"; }
failed() { grep -qxF "failed: fast/$1" "$work/log"; } # TEST: CASE
tries() { [ "$(grep -cx "$1 $2" "$tree/tries")" = "$3" ]; } # NODE TEST NUMBER
guests='1?-*'

all_good() { played '[0-9]*' </dev/null && closing 0 && tries 1 10-one 1 && tries 1 11-two 1 && tries 1 60-pair 2 && tries 2 60-pair 2; }
check "runner: all pass" all_good
# A test of time has a guest of its own, with ICOUNT=1, on the fast kernel only.
timed=$tree/tools/testing/guest/12-time.sh
counted() {
    printf '# SPDX-License-Identifier: GPL-2.0\n# limit: 5\n# icount\n' >"$timed"
    played "$guests" <<<'body() { echo "$2 ICOUNT=${ICOUNT:-}" >>"$here/counted"; printf "ok 1 - a\n1..1\n"; }' && closing 0 &&
        [ "$(sort "$tree/counted" | xargs)" = "10-one ICOUNT= 11-two ICOUNT= 12-time ICOUNT=yes" ] || return
    played "$guests" KERNEL=um </dev/null && closing 0 && tries 1 12-time 0
}
check "runner: a guest that counts instructions" counted
rm -f "$timed"
bad_status() { ! played "$guests" <<<'body() { printf "ok 1 - a\n1..1\n"; [ "$2" = 10-one ]; }' && closing 1 && failed "11-two: exit status 1 without a failed case"; }
check "runner: a test's exit status" bad_status
bad_status_1() { ! played '60*' <<<'body() { printf "ok 1 - a\n1..1\n"; return $((2 - $1)); }' && closing 2 && failed "60-pair-rust-c: node 1: exit status 1 without a failed case"; }
check "runner: node 1's exit status" bad_status_1
dies() {
    # Both in one boot, as on um.
    ! played "$guests" KERNEL=um <<<'body() { printf "ok 1 - a\n1..1\n"; if [ "$2" = 10-one ]; then return 200; fi; }' &&
        closing 1 && grep -qxF "failed: um/10-one: the guest died or hung in this test" "$work/log" &&
        grep -q 'Kernel panic' "$work/log" && grep -qE '^um +11-two +1 +0 ' "$work/log" && tries 1 11-two 1
}
check "runner: a death, and the rest in another boot" dies

# --- the kernel's log
in_log() { # GUESTS WHERE NODE LINE
    ! played "$1" <<<"$2() { if [ \$1 = $3 ]; then echo '$4'; fi; }" || return
    cat "$work/log"
}
log_before() { in_log '10*' before 1 "[ 0.5] BUG: early" && closing 1 && failed "boot-guest: boot: kernel log" && grep -q 'BUG: early' "$work/log"; }
log_after() { in_log '10*' after 1 "[ 2.5] INFO: trying to register non-static key." && closing 1 && failed "boot-guest: boot: kernel log"; }
log_at_end() { in_log '10*' console 1 "[ 3.5] WARNING: at shutdown" && closing 1 && failed "boot-guest: boot: kernel log"; }
log_of_node() { in_log '60*' before "$1" "[ 0.5] BUG: early" && closing 2 && failed "boot-60-pair-rust-c: $2boot: kernel log"; }
log_lost() { ! played '10*' <<<'first_lines() { :; }' && closing 1 && failed "boot-guest: boot: kernel log: its beginning is lost"; }
check "runner: a report before the first test" log_before
check "runner: a report after the last test" log_after
check "runner: a report while the guest shuts down" log_at_end
check "runner: a report on node 1 of two" log_of_node 1 "node 1: "
check "runner: a report on node 2 of two" log_of_node 2 ""
check "runner: the boot's log is lost" log_lost

# --- second tries
by_chance() {
    played "$guests" AGAIN=1 <<<'body() { if [ "$2 $3" = "10-one 1" ]; then printf "not ok 1 - by chance\n1..1\n"; return 1; fi; printf "ok 1 - by chance\n1..1\n"; }' &&
        closing 0 && tries 1 10-one 2 && tries 1 11-two 1 && grep -q '^1 on the second try .*: fast/10-one$' "$work/log" &&
        grep -q '^failed at the first try (AGAIN=1): fast/10-one: by chance (a test)' "$work/log"
}
not_listed() {
    ! played "$guests" AGAIN=1 <<<'body() { if [ "$2 $3" = "11-two 1" ]; then printf "not ok 1 - a\n1..1\n"; return 1; fi; printf "ok 1 - a\n1..1\n"; }' &&
        closing 1 && tries 1 11-two 1 && failed "11-two: a"
}
# The death of a node, with every case of the pair in the table: a second try only if it is the C one.
no_chance() { # NODE, LABEL with the C stack on it
    ! played '60*' AGAIN=1 <<<"body() { printf 'ok 1 - a\n'; if [ \$1 = $1 ]; then return 200; fi; echo 1..1; }" &&
        closing 2 && tries "$1" 60-pair 3 && [ -d "$tree/build/test/fast/60-pair-$2-again" ]
}
listed_twice() { ! played '10*' AGAIN=1 <<<'body() { printf "not ok 1 - by chance\n1..1\n"; return 1; }' && closing 1 && tries 1 10-one 2; }
check "again: a case of the table" by_chance
check "again: no other case" not_listed
check "again: not after the death of node 1" no_chance 1 c-rust
check "again: not after the death of node 2" no_chance 2 rust-c
check "again: once" listed_twice

# --- the tests on the host
host_says() { # STATUS LINE...
    echo "$1" >"$tree/cargo.status"
    shift
    printf '%s\n' "$@" >"$tree/cargo.log"
    mkdir -p "$tree/tools/testing/host"
    touch "$tree/tools/testing/host/Cargo.toml"
    played host </dev/null
}
host_good() { host_says 0 "running 2 tests" "test a ... ok" "test b - should panic ... ok" "running 0 tests" && closing 0; }
host_fewer() { ! host_says 0 "running 3 tests" "test a ... ok" "test b ... ok" && grep -qx 'failed: host/host: planned 3 cases, told 2' "$work/log"; }
host_status() { ! host_says 101 "running 1 test" "test a ... ok" "error: could not compile" && grep -qx 'failed: host/host: exit status 101 without a failed case' "$work/log" && grep -q 'could not compile' "$work/log"; }
host_failed() { ! host_says 101 "running 1 test" "test a ... FAILED" && grep -qx 'failed: host/host: a' "$work/log" && closing 1; }
check "runner: host tests" host_good
check "runner: host tests, a result is missing" host_fewer
check "runner: host tests, cargo fails" host_status
check "runner: host tests, one fails" host_failed
harness_says() { # STATUS LINE...
    { echo '#!/bin/bash'; printf 'echo %q\n' "${@:2}"; echo "exit $1"; } >"$tree/tools/testing/harness.sh"
    chmod +x "$tree/tools/testing/harness.sh"
    played harness </dev/null
}
harness_good() { harness_says 0 "ok 1 - a" 1..1 && closing 0; }
harness_status() { ! harness_says 3 "ok 1 - a" 1..1 && grep -qx 'failed: host/harness: exit status 3 without a failed case' "$work/log"; }
harness_plan() { ! harness_says 0 "ok 1 - a" && grep -qx 'failed: host/harness: no plan (1..N)' "$work/log"; }
check "runner: the harness' own tests" harness_good
check "runner: their exit status" harness_status
check "runner: their plan" harness_plan

# --- the length of the kernel's log, which the runner asks for, reaches each kind of guest
command_for() { # KERNEL
    (
        eval "$(sed -n '/^command_of()/,/^}/p' "$TOP/tools/boot.sh")"
        # shellcheck disable=SC2034
        KERNEL=$1 APPEND=log_buf_len=8M kernel=k image=i inside=/src/x out=$work accel=kvm tsc='' MEM=1G SMP=1 NODES=1
        command_of 1
        printf '%s\n' "${cmd[@]}"
    )
}
long_log() { command_for "$1" | tr ' ' '\n' | grep -x log_buf_len=8M; }
check "boot: a long kernel log on um" long_log um
check "boot: a long kernel log under the emulator" long_log fast

# --- a guest that hangs while it boots is booted again, once
# boots LIMIT [LINE...]: the exit status of boot.sh's waiting loop, 9 when it did not end, and how many
# boots there were; each LINE is what the guest does in one boot, which lasts until it is stopped.
boots() {
    local tree=$work/boots line
    rm -rf "$tree"
    mkdir -p "$tree/share1"
    printf '%s\n' "${@:2}" >"$tree/plan"
    (
        eval "$(sed -n '/^still=/p; /^declare -A length/p; /^boot_hangs()/,/^}/p; /^wait_all()/,/^}/p' "$TOP/tools/boot.sh")"
        # shellcheck disable=SC2034
        out=$tree still=2 NODES=1 TIMEOUT=$1 verdict=
        running() { [ ! -e "$out/gone" ]; }
        for attempt in 1 2; do
            rm -f "$out/share1/reached" "$out/console1" "$out/gone"
            bash -c "cd '$out'; $(sed -n "${attempt}p" "$out/plan")" &
            verdict=0
            wait_all $attempt || verdict=$?
            kill $! 2>/dev/null
            wait 2>/dev/null
            echo "boot $attempt: $verdict" >>"$out/said"
            if [ $verdict != 2 ]; then break; fi
        done
    )
    xargs <"$tree/said"
}
talks='for i in 1 2 3 4 5 6; do echo $i >>console1; sleep 0.7; done; touch gone'
hung() { [ "$(boots 9 'echo a >console1; sleep 60' 'touch share1/reached gone')" = "boot 1: 2 boot 2: 0" ]; }
silent() { [ "$(boots 9 'sleep 60' 'touch share1/reached gone')" = "boot 1: 2 boot 2: 0" ]; }
hung_twice() { [ "$(boots 6 'sleep 60' 'sleep 60')" = "boot 1: 2 boot 2: 1" ]; }
slow() { [ "$(boots 20 "$talks")" = "boot 1: 0" ]; }
in_script() { [ "$(boots 5 'touch share1/reached; sleep 60')" = "boot 1: 1" ]; }
check "boot: a guest that stops talking is booted again" hung
check "boot: so is one that says nothing" silent
check "boot: but once" hung_twice
check "boot: not one that is slow" slow
check "boot: not one that hangs when our modules may be loaded" in_script

# --- .ci/run counts the second tries of all kernels
ci() { # SECOND-TRIES of each of the runs; STATUS= is that of kernel.sh stock, which says SAYS=
    local dir name n
    dir=$work/ci
    rm -rf "$dir"
    mkdir -p "$dir/.ci" "$dir/build" "$dir/tools"
    printf '#!/bin/bash\n' >"$dir/tools/ci-bench.sh"
    # shellcheck disable=SC2016
    printf '#!/bin/bash\nif [ "$1" = stock ]; then echo "$SAYS"; exit ${STATUS:-0}; fi\n[ "$1" != --has ]\n' >"$dir/tools/kernel.sh"
    chmod +x "$dir/tools"/*.sh
    cp "$TOP/.ci/run" "$dir/.ci/"
    # shellcheck disable=SC2016
    stub make 'for a; do if [ "$a" = test ]; then d=build/${TEST_DIR:-test}; mkdir -p "$d"; : >"$d/second-try"
        n=$(cat "second.${TEST_DIR:-test}"); for i in $(seq "$n"); do echo "x/$i-${TEST_DIR:-test}" >>"$d/second-try"; done; fi; done'
    for name in test um um-lockdep stock stock-7.3; do
        echo "${1:-0}" >"$dir/second.$name"
        shift
    done
    PATH=$work/stubs:$PATH bash "$dir/.ci/run" >"$work/log" 2>&1 </dev/null
    n=$?
    cat "$work/log"
    return $n
}
too_many() { ! ci 2 1 2 && grep -q '^error: more than 4 tests passed on the second try only' "$work/log"; }
no_count() {
    ci 0 0 0 || return
    # shellcheck disable=SC2016
    stub make ''
    rm -rf "$work/ci/build/um"
    ! PATH=$work/stubs:$PATH bash "$work/ci/.ci/run" >"$work/log" 2>&1 </dev/null
}
without_stock() { # STATUS SAYS
    STATUS=$1 SAYS=$2 ci 0 && [ "$(grep -c 'NOT RUN: the short path on stock, ' "$work/log")" = 1 ] &&
        [ ! -e "$work/ci/build/stock" ] && [ -e "$work/ci/build/stock-7.3" ]
}
check "ci: no second try" ci 0 0 0
check "ci: the archive has no kernel that fits" without_stock 3 ""
check "ci: the distribution's kernel cannot be downloaded" without_stock 1 "error: x: a download failed (y); z"
refuse "ci: another failure to make it" without_stock 1 "error: the initramfs could not be made; z"
check "ci: four of them" ci 2 1 0 1
check "ci: five are too many" too_many
check "ci: a run that tells no number fails" no_count
rm -f "$work/stubs/make"
