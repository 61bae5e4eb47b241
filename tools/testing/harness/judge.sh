# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# report.py and compare.py: no result passes that its cases, its plan, its exit status, its
# modules or the tables speak against. Fixtures are small result files in $work/run.

run=$work/run
testing=/src/tools/testing
inside() { echo "/src/${1#"$TOP"/}"; }
# report STACK: the report on the fixtures, in $work/log.
report() { in_builder python3 $testing/report.py "$(inside "$run")" "$1" </dev/null >"$work/log" 2>&1; }
again() { in_builder python3 $testing/report.py --again "$1" "$(inside "$2")" </dev/null; }
fresh() { rm -rf "$run" && mkdir -p "$run"/{fast,um,host}/{results,first}; }
ours='# guest: node=1 kernel=fast stack=rust staged=ib_core,rdma_rxe'
c_guest='# guest: node=1 kernel=fast stack=c staged='
right='# modules: ib_core=rust ib_uverbs=c rdma_rxe=rust'
all_c='# modules: ib_core=c ib_uverbs=c rdma_rxe=c'
result() { # FOLDER/NAME LINE...
    local file=$run/${1%/*}/results/${1#*/}.ktap
    shift
    printf '%s\n' "$@" >"$file"
}
# fails NAME [STACK]: the report fails, names it, and counts one failed case.
fails() {
    report "${2:-rust}" && { cat "$work/log"; return 1; }
    cat "$work/log"
    grep -qF "failed: $1" "$work/log" && tail -n 1 "$work/log" | grep -qE '^[0-9]+ passed, 1 failed, [0-9]+ skipped$'
}
# passes CLOSING-LINE [STACK]
passes() {
    report "${2:-rust}" || { cat "$work/log"; return 1; }
    cat "$work/log"
    tail -n 1 "$work/log" | grep -qx "$1"
}
# one NAME LINE...: the only result, of 10-x in a guest with our modules.
one() {
    local name=$1
    shift
    fresh
    result fast/10-x "$ours" "$@"
    fails "fast/10-x: $name"
}
good() {
    fresh
    result fast/10-x "$ours" "KTAP version 1" "ok 1 - a" "ok 2 - b" 1..2 "" "$right" "# ended: 0" "# seconds 3"
    passes "2 passed, 0 failed, 0 skipped"
}

# --- cases, plan and exit status
check "judge: a good result" good
check "judge: no plan" one "no plan (1..N)" "ok 1 - a" "$right" "# ended: 0"
check "judge: fewer cases than planned" one "planned 3 cases, told 2" "ok 1 - a" "ok 2 - b" 1..3 "$right" "# ended: 0"
check "judge: more cases than planned" one "planned 1 cases, told 2" "ok 1 - a" "ok 2 - b" 1..1 "$right" "# ended: 0"
check "judge: two plans" one "planned 1 and 1 cases, told 2" "ok 1 - a" 1..1 "ok 2 - b" 1..1 "$right" "# ended: 0"
check "judge: a failed case" one "b" "ok 1 - a" "not ok 2 - b" 1..2 "$right" "# ended: 1"
check "judge: a status and no failed case" one "exit status 3 without a failed case" "ok 1 - a" 1..1 "$right" "# ended: 3"
status_zero() {
    fresh
    result fast/10-x "$ours" "ok 1 - a" "not ok 2 - b" 1..2 "$right" "# ended: 0"
    ! report rust && cat "$work/log" && grep -q "failed: fast/10-x: exit status 0 with a failed case" "$work/log"
}
check "judge: status 0 and a failed case" status_zero
check "judge: a hang" one "the test did not end within its limit" "ok 1 - a" 1..1 "$right" "# ended: 124"
check "judge: killed by the runner" one "the test did not end within its limit" "ok 1 - a" 1..1 "$right" "# ended: 137"
check "judge: ended by another signal" one "exit status 139 without a failed case" "ok 1 - a" 1..1 "$right" "# ended: 139"
check "judge: a death" one "the guest died or hung in this test" "ok 1 - a"
check "judge: a death after the plan" one "the guest died or hung in this test" "ok 1 - a" 1..1 "$right"
check "judge: words that begin with ok are no case" one "planned 2 cases, told 1" "ok 1 - a" "okay then" 1..2 "$right" "# ended: 0"
nothing() {
    fresh
    result fast/10-x "$ours" 1..0 "$right" "# ended: 0" "ok - c does not warn # SKIP c"
    result fast/11-y "$ours" "ok 1 - a" 1..1 "$right" "# ended: 0"
    ! report c && cat "$work/log" && grep -q "failed: fast/10-x: the test printed no result" "$work/log"
}
check "judge: no case at all" nothing
runner_cases() {
    fresh
    result fast/10-x "$ours" "ok 1 - a" 1..1 "$right" "# ended: 0" "# BUG: x" "not ok - kernel log"
    fails "fast/10-x: kernel log"
}
check "judge: the runner's cases are not in the plan" runner_cases
missing() {
    fresh
    result fast/10-x "$ours" "ok 1 - a" 1..1 "$right" "# ended: 0"
    printf '%s\n' 10-x 11-y >"$run/fast/expected"
    ! report rust && cat "$work/log" && grep -q "failed: fast/11-y: the test printed no result" "$work/log"
}
check "judge: a result that is expected and not there" missing
host() { # STATUS [LINE...]
    fresh
    result host/host "ok - a" "${@:2}" "# ended: $1"
}
host_good() { host 0 1..1 && passes "1 passed, 0 failed, 0 skipped"; }
host_status() { host 101 1..1 && fails "host/host: exit status 101 without a failed case"; }
host_plan() { host 0 1..2 && fails "host/host: planned 2 cases, told 1"; }
check "judge: host tests" host_good
check "judge: host tests, their status" host_status
check "judge: host tests, their number" host_plan

# --- two guests
two() { # STATUS-OF-NODE-1 PLAN-OF-NODE-1 [LINE-OF-NODE-1...]
    fresh
    result fast/60-x-rust-c "${c_guest/node=1/node=2}" "ok 1 - a" 1..1 "$all_c" "# ended: 0" "# seconds 1" \
        "# of node 1" "$ours" "${@:3}" "$2" "$right" "# ended: $1"
}
two_good() { two 0 1..0 && passes "1 passed, 0 failed, 0 skipped"; }
two_status() { two 2 1..0 && fails "fast/60-x-rust-c: node 1: exit status 2 without a failed case"; }
two_plan() { two 0 "" && fails "fast/60-x-rust-c: node 1: no plan (1..N)"; }
two_case() { two 1 1..1 "not ok 1 - b" && fails "fast/60-x-rust-c: node 1: b"; }
two_death() {
    two 0 1..0
    sed -i '0,/# ended/{/# ended/d}' "$run/fast/results/60-x-rust-c.ktap"
    fails "fast/60-x-rust-c: the guest died or hung in this test"
}
check "judge: two guests" two_good
check "judge: two guests, node 1's status" two_status
check "judge: two guests, node 1's plan" two_plan
check "judge: two guests, node 1's case" two_case
check "judge: two guests, node 2's death" two_death

# --- modules and STACK
modules() { # NAME STACK MODULES
    fresh
    result fast/10-x "# guest: node=1 kernel=fast stack=$2 staged=$3" "ok 1 - a" 1..1 "# modules: $4" "# ended: 0"
    fails "fast/10-x: $1" "$2"
}
boot() { # MODULES
    fresh
    result fast/10-x "$ours" "ok 1 - a" 1..1 "$right" "# ended: 0"
    result fast/boot-guest "${ours/node/boot=1 node}" "# modules: $1" 1..0 "# ended: 0" "ok - boot: kernel log"
}
boot_good() { boot "ib_core=rust rdma_rxe=rust" && passes "2 passed, 0 failed, 0 skipped"; }
boot_lacks() { boot "ib_core=rust" && fails "fast/boot-guest: modules: rdma_rxe is not loaded"; }
boot_c() { boot "ib_core=rust rdma_rxe=c" && fails "fast/boot-guest: modules: rdma_rxe is the c one"; }
no_modules() {
    fresh
    result fast/10-x "$ours" "ok 1 - a" 1..1 "# ended: 0"
    fails "fast/10-x: nothing is known of the loaded modules"
}
check "judge: the C module in place of ours" modules "modules: ib_core is the c one" rust ib_core,rdma_rxe "ib_core=c rdma_rxe=rust"
check "judge: ours in place of the C module" modules "modules: rdma_rxe is the rust one" ib_core ib_core "ib_core=rust rdma_rxe=rust"
check "judge: ours with STACK=c" modules "modules: ib_core is the rust one" c "" "ib_core=rust rdma_rxe=c"
check "judge: a driver that is not staged" modules "modules: rdma_rxe is the c one" rust ib_core "ib_core=rust rdma_rxe=c"
test_driver() {
    fresh
    result fast/10-x "# guest: node=1 kernel=fast stack=ib_umad staged=ib_umad" "ok 1 - a" 1..1 "# modules: fakeib=rust ib_umad=rust" "# ended: 0"
    passes "1 passed, 0 failed, 0 skipped"
}
check "judge: a driver of the tests on any stack of ours" test_driver
check "judge: modules are not told" no_modules
check "judge: the modules of a boot" boot_good
boot_unseen() { boot "ib_core=rust rdma_rxe=rust" && sed -i '/kernel log/d' "$run/fast/results/boot-guest.ktap" && fails "fast/boot-guest: boot: kernel log: nobody looked at it"; }
check "judge: a boot without its kernel log" boot_unseen
check "judge: a boot without our driver" boot_lacks
check "judge: a boot with the C driver" boot_c

# --- skips
skipped() { # TEST CASE KERNEL
    fresh
    result "$3/$1" "$ours" "ok 1 - a" "ok 2 - $2 # SKIP it says why" 1..2 "$right" "# ended: 0"
}
listed() { skipped 29-odp "huge pages" um && passes "1 passed, 0 failed, 1 skipped"; }
unlisted() {
    skipped 29-odp "huge pages" fast
    fails "fast/29-odp: skipped, not in skips.txt: huge pages" &&
        grep -qx ' *29-odp | huge pages | fast | rust | it says why' "$work/log"
}
other_stack() { skipped 29-odp "huge pages" fast && sed -i 's/stack=rust.*/stack=c/; s/=rust/=c/g' "$run/fast/results/29-odp.ktap" && passes "1 passed, 0 failed, 1 skipped" c; }
check "judge: a listed skip" listed
check "judge: the same skip on another kernel" unlisted
check "judge: the list is for STACK=rust" other_stack

# --- known failures of the C stack
peer() { # STACK GUEST MODULES CASE
    fresh
    result fast/10-x "$2" "ok 1 - a" 1..1 "$3" "# ended: 0"
    result fast/35-loss "$2" "ok 1 - a" "$4" 1..2 "$3" "# ended: 1"
}
mixed='# guest: node=1 kernel=fast stack=ib_core staged=ib_core'
half='# modules: ib_core=rust rdma_rxe=c'
excused() { peer c "$c_guest" "$all_c" "not ok 2 - data under loss 1%" && passes "2 passed, 0 failed, 1 skipped" c; }
excused_on_ours() { peer ib_core "$mixed" "$half" "not ok 2 - data under loss 1%" && passes "2 passed, 0 failed, 1 skipped" ib_core; }
no_excuse() { peer rust "$ours" "$right" "not ok 2 - data under loss 1%" && fails "fast/35-loss: data under loss 1%"; }
log_of() { # STACK GUEST MODULES
    fresh
    result fast/35-loss "$2" "ok 1 - a" 1..1 "$3" "# ended: 0" "not ok - kernel log"
}
log_excused() { log_of c "$c_guest" "$all_c" && passes "1 passed, 0 failed, 1 skipped" c; }
log_of_ours() { log_of ib_core "$mixed" "$half" && fails "fast/35-loss: kernel log" ib_core; }
death_of() { # GUEST
    fresh
    result fast/10-x "$1" "ok 1 - a" 1..1 "$2" "# ended: 0"
    result fast/80-hostile "$1" "ok 1 - a"
}
death_excused() { death_of "$c_guest" "$all_c" && passes "2 passed, 0 failed, 1 skipped" c; }
death_of_ours() { death_of "$mixed" "$half" && fails "fast/80-hostile: the guest died or hung in this test" ib_core; }
check "judge: what the C driver fails, STACK=c" excused
check "judge: what the C driver fails, on our core" excused_on_ours
check "judge: what the C driver fails, of ours" no_excuse
check "judge: a known kernel report, STACK=c" log_excused
check "judge: a known kernel report, on our core" log_of_ours
check "judge: a known death, STACK=c" death_excused
check "judge: a known death, on our core" death_of_ours
# Nor by a row that is wider than it should be.
wide() {
    mkdir -p "$work/tables"
    cp "$TOP"/tools/testing/{skips,chance}.txt "$work/tables/"
    echo '* | * | * | * | anything' >"$work/tables/peer-failures.txt"
    log_of ib_core "$mixed" "$half"
    ! in_builder python3 $testing/report.py --tables "$(inside "$work/tables")" "$(inside "$run")" ib_core </dev/null
}
check "judge: a row for everything excuses no report of our core" wide
row_without_stack() {
    echo '35-loss | kernel log | why' >"$work/tables/peer-failures.txt"
    ! in_builder python3 $testing/report.py --tables "$(inside "$work/tables")" "$(inside "$run")" c </dev/null >"$work/log" 2>&1 &&
        grep 'peer-failures.txt:1: test | case | kernel | stack | why' "$work/log"
}
check "judge: a row says for which stack it is" row_without_stack

# --- second tries
tried() { # FOLDER/NAME GUEST MODULES STATUS LINE...: whether that may be tried again
    fresh
    result "$1" "$2" "${@:5}" "$3" "# ended: $4"
    [ "$(again "${stack:-rust}" "$run/${1%/*}/results/${1#*/}.ktap")" = "${1#*/}" ]
}
plan2=("ok 1 - a" "not ok 2 - rping, large" 1..2)
check "again: a case of the table" tried um/26-iwarp "$ours" "$right" 1 "${plan2[@]}"
lost=("ok 1 - a" "not ok 2 - ibv_ud_pingpong and ibv_rc_pingpong by LIDs" 1..2)
check "again: a case of a row for one kernel" tried um/37-fabric "$ours" "$right" 1 "${lost[@]}"
refuse "again: not on another kernel" tried fast/37-fabric "$ours" "$right" 1 "${lost[@]}"
refuse "again: not another test" tried um/25-x "$ours" "$right" 1 "${plan2[@]}"
refuse "again: not with a failure beside" tried um/26-iwarp "$ours" "$right" 1 "not ok 1 - two nodes with siw" "${plan2[1]}" 1..2
refuse "again: not what passed" tried um/26-iwarp "$ours" "$right" 0 "ok 1 - rping, large" 1..1
refuse "again: not with a wrong plan" tried um/26-iwarp "$ours" "$right" 1 "${plan2[@]:0:2}" 1..3
refuse "again: not after a hang" tried um/26-iwarp "$ours" "$right" 124 "${plan2[@]}"
beside() { # CASE: the case of the table, and one of the runner's
    fresh
    result um/26-iwarp "$ours" "${plan2[@]}" "$right" "# ended: 1" "not ok - $1"
    [ -n "$(again rust "$run/um/results/26-iwarp.ktap")" ]
}
refuse "again: not with a kernel report" beside "kernel log"
refuse "again: not with a leak" beside kmemleak
died_too() { # WHICH NODE
    local name=26-iwarp
    fresh
    result um/$name "$ours" "${plan2[@]}" "$right" "# ended: 1" "# of node 1" "$ours" 1..0 "$right" "# ended: 0"
    awk -v which="$1" '/# ended/ && ++n == which { next } { print }' "$run/um/results/$name.ktap" >"$work/x" && cp "$work/x" "$run/um/results/$name.ktap"
    [ -n "$(again rust "$run/um/results/$name.ktap")" ]
}
refuse "again: not after the death of node 2" died_too 1
refuse "again: not after the death of node 1" died_too 2
first() { # SECOND-VERDICT
    fresh
    result um/26-iwarp "$ours" "${plan2[@]}" "$right" "# ended: 1"
    mv "$run/um/results/26-iwarp.ktap" "$run/um/first/"
    result um/26-iwarp "$ours" "ok 1 - a" "$@" "$right" "# ended: 0"
}
told() {
    first "ok 2 - rping, large" 1..2
    passes "2 passed, 0 failed, 0 skipped" && grep -q '^1 on the second try .*: um/26-iwarp$' "$work/log" &&
        [ "$(cat "$run/second-try")" = um/26-iwarp ] && tail -n 1 "$work/log" | grep -qx '[0-9]* passed, [0-9]* failed, [0-9]* skipped'
}
vanished() { first 1..1 && fails "um/26-iwarp: failed at the first try, missing at the second: rping, large"; }
second_skip() {
    first "ok 2 - rping, large # SKIP not today" 1..2
    ! report c && grep -q "failed at the first try, skip at the second: rping, large" "$work/log"
}
none_told() { good && [ ! -s "$run/second-try" ] && ! grep 'second try' "$work/log"; }
check "again: the closing text tells it" told
check "again: and is silent without" none_told
check "again: what failed must be there again" vanished
check "again: and not as a skip" second_skip

# --- compare.py
compare() { in_builder python3 $testing/compare.py "$(inside "$run/fast/results")" "$(inside "$run/um/results")" "$@" </dev/null; }
both() {
    fresh
    for kernel in fast um; do
        result $kernel/10-x "$ours" "ok 1 - a" 1..1 "$right" "# ended: 0"
        result $kernel/boot-$kernel "$ours" 1..0 "$right" "# ended: 0" "ok - boot: kernel log"
    done
}
alike() { both && compare | grep -q '^1 alike, 0 only A passes'; }
one_sided() { # KERNEL
    both
    result "$1/11-y" "$ours" "ok 1 - a" 1..1 "$right" "# ended: 0"
    compare >"$work/log" && { cat "$work/log"; return 1; }
    cat "$work/log"
    grep -q '^11-y: not run on' "$work/log" && grep -q '^1 tests were run on one side only: 11-y' "$work/log"
}
left_out() { one_sided fast && compare '11*'; }
log_on_b() {
    both
    echo "not ok - kernel log" >>"$run/um/results/10-x.ktap"
    compare && return 1
    [ $? = 1 ]
}
check "compare: two that are alike" alike
check "compare: a test that B lacks" one_sided fast
check "compare: a test that A lacks" one_sided um
check "compare: unless it is left out" left_out
check "compare: a kernel report on B alone" log_on_b
rm -rf "$run"
