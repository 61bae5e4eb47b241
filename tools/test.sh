#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# test.sh: host tests, tests of the harness, then the guest suite on KERNEL with STACK; T
# is a glob over test names ("host", "harness", "compile-fail" and "package" among them), SHORT=1
# selects only the tests marked short, or short for this kernel.
# AGAIN=1 repeats a test once if it failed only in cases of tools/testing/chance.txt, and reports
# it; ALONE=1 runs every test in a separate guest.
# PATIENCE=N multiplies the time limits, for a machine with other work.
# KERNEL=debug is the suite on um, then on um-lockdep. Results: build/test/, or
# build/TEST_DIR to keep runs apart. Runs that share SEATS=FILE run at most three guests
# (or pairs of them) at a time in total.
. "$(dirname "$0")/lib.sh"
. "$TOP/tools/testing/guest/reports.sh"

T=${T:-*} SHORT=${SHORT:-} STACK=${STACK:-rust} KERNEL=${KERNEL:-fast}
kernels=$KERNEL
[ "$KERNEL" != debug ] || kernels="um um-lockdep"
guest=$TOP/tools/testing/guest
out=$BUILD/${TEST_DIR:-test}

# field TEST NAME: the value of a "# name: value" line of the test, or "yes" for a
# bare "# name" line.
field() { sed -n "2,8s/^# $2: *//p; 2,8s/^# $2\$/yes/p" "$guest/$1.sh" | head -n 1; }

# limit TEST: its time limit in seconds; DURATION= is added for tests whose duration can be chosen.
limit() {
    local seconds
    seconds=$(field "$1" limit)
    if [ -n "$(field "$1" duration)" ]; then seconds=$((seconds + ${DURATION:-0})); fi
    echo "$seconds"
}

# judge ARG...: report.py, which decides what has failed.
judge() { in_builder python3 /src/tools/testing/report.py "$@" </dev/null; }
inside() { echo "/src/${1#"$TOP"/}"; }

host_tests() {
    # shellcheck disable=SC2053
    [[ host == $T ]] || return 0
    [ -e "$TOP/tools/testing/host/Cargo.toml" ] || return 0
    say "host tests (first time: about 3 minutes to compile)"
    local log=$out/host/cargo.log status=0 start=$SECONDS
    host_cargo test -j2 --release --no-fail-fast </dev/null >"$log" 2>&1 || status=$?
    cargo_results "$status" $((SECONDS - start)) <"$log" >"$out/host/results/host.ktap"
}

# cargo_results STATUS SECONDS <LOG: cargo's results as KTAP. Each test program first prints the
# number of its tests.
cargo_results() {
    awk -v status="$1" -v seconds="$2" '
        /^running [0-9]+ tests?$/ { plan += $2; next }
        /^test .* [.][.][.] ok$/ { sub(/^test /, ""); sub(/ [.][.][.] ok$/, ""); print "ok - " $0; next }
        /^test .* [.][.][.] FAILED$/ { sub(/^test /, ""); sub(/ [.][.][.] FAILED$/, ""); print "not ok - " $0; next }
        /^test .* [.][.][.] ignored/ { sub(/^test /, ""); sub(/ [.][.][.] ignored.*/, ""); print "ok - " $0 " # SKIP marked ignored in its source"; next }
        { last[NR % 20] = $0 }
        END {
            if (status) for (i = NR + 1; i <= NR + 20; i++) if (i % 20 in last) print "# " last[i % 20]
            print "1.." plan + 0
            print "# ended: " status
            print "# seconds " seconds
        }'
}

harness_tests() {
    # shellcheck disable=SC2053
    [[ harness == $T ]] || return 0
    say "tests of the harness itself: a minute or two"
    local start=$SECONDS status=0 results=$out/host/results/harness.ktap
    "$TOP/tools/testing/harness.sh" >"$results" 2>"$out/host/harness.log" </dev/null || status=$?
    printf '\n# ended: %s\n# seconds %s\n' "$status" $((SECONDS - start)) >>"$results"
}

compile_fail_tests() {
    # shellcheck disable=SC2053
    [[ compile-fail == $T ]] || return 0
    local start=$SECONDS status=0 results=$out/host/results/compile-fail.ktap
    "$TOP/tools/modules.sh" "${kernels%% *}"
    KERNEL=${kernels%% *} "$TOP/tools/compile_fail.sh" >"$results" 2>"$out/host/compile-fail.log" </dev/null || status=$?
    printf '\n# ended: %s\n# seconds %s\n' "$status" $((SECONDS - start)) >>"$results"
}

# The package is for distributions' kernels: with others it is tested when it is named.
wants_package() {
    # shellcheck disable=SC2053
    [[ package == $T ]] && [[ $kernels == stock* || $T == package ]]
}
package_tests() {
    wants_package || return 0
    say "the package: installed, loaded, removed; its first build takes some minutes"
    local start=$SECONDS status=0 results=$out/host/results/package.ktap
    WORK=$BUILD/package KERNEL=${kernels%% *} "$TOP/tools/testing/harness.sh" package >"$results" 2>"$out/host/package.log" </dev/null || status=$?
    printf '\n# ended: %s\n# seconds %s\n' "$status" $((SECONDS - start)) >>"$results"
}

# The series for the kernel's source builds two kernels, so it is tested when it is named.
patches_tests() {
    [ "$T" = patches ] || return 0
    say "the series of make patches: applied, compiled, booted; two kernel builds"
    local start=$SECONDS status=0 results=$out/host/results/patches.ktap
    WORK=$BUILD/patches "$TOP/tools/testing/harness.sh" patches >"$results" 2>"$out/host/patches.log" </dev/null || status=$?
    printf '\n# ended: %s\n# seconds %s\n' "$status" $((SECONDS - start)) >>"$results"
}

# group KERNEL LABEL NODES TEST...: run the tests in one boot; if the guest dies in one of them,
# that test has failed and the remaining ones are run in another boot.
group() {
    local kernel=$1 label=$2 nodes=$3 scale=1 limit test run share results left died boots=0
    shift 3
    local tests=("$@")
    case $kernel in lockdep | kcsan) scale=6 ;; um-lockdep) scale=3 ;; um | stock | stock-*) scale=2 ;; esac
    if [ -n "${ICOUNT:-}" ]; then scale=4; fi
    results=$out/$kernel/results
    run=$out/$kernel/$label
    # A separate list for each group: two may run at a time.
    share=$out/$kernel/$label.share
    mkdir -p "$share"
    cp -al "$out/share/." "$share/"
    while [ ${#tests[@]} -gt 0 ]; do
        limit=60
        : >"$share/tests/list"
        for test in "${tests[@]}"; do
            echo "$test $(limit "$test")" >>"$share/tests/list"
            limit=$((limit + ($(limit "$test") + 20) * scale * ${PATIENCE:-1}))
        done
        KERNEL=$kernel NODES=$nodes TIMEOUT=$limit SHARE=$share APPEND="log_buf_len=8M" \
            "$TOP/tools/boot.sh" "$run" "$guest/run.sh" || :
        boots=$((boots + 1))
        sections boot "$run" "$nodes" >"$results/boot-$label$([ $boots = 1 ] || echo ".$boots").ktap"
        left=()
        died=
        for test in "${tests[@]}"; do
            if grep -qx "$test" "$run/share1/results/finished" 2>/dev/null; then
                collect "$run" "$results" "$nodes" "$label" "$test"
            elif [ -z "$died" ]; then
                died=$test
                collect "$run" "$results" "$nodes" "$label" "$test"
                cp "$run/console1" "$results/$test.console" 2>/dev/null || :
            else
                left+=("$test")
            fi
        done
        tests=("${left[@]}")
        if [ ${#tests[@]} -gt 0 ]; then say "booting again for the ${#tests[@]} tests after $died"; fi
    done
}

# sections TEST RUN NODES: the results of each node; of two nodes, node 2 is the driver.
sections() {
    local node nodes=1
    [ "$3" != 2 ] || nodes="2 1"
    for node in $nodes; do
        if [ "$nodes$node" = "2 11" ]; then echo "# of node 1"; fi
        if [ "$1" = boot ]; then
            boot_section "$2" "$node"
        else
            test_section "$1" "$2" "$node"
        fi
    done
}

# test_section TEST RUN NODE: its results, and the end of the console if the guest died.
test_section() {
    local results=$2/share$3/results/$1.ktap
    if [ -e "$results" ]; then cat "$results"; fi
    if ! grep -qs '^# ended: ' "$results"; then
        printf '\n# the end of the console:\n'
        grep -a . "$2/console$3" | tail -n 20 | sed 's/^/# /' || :
    fi
}

# boot_section RUN NODE: the modules of a boot, and a case for what the kernel logged before,
# between and after its tests. The log ends with the guest's script; the console has later messages,
# and is the only output of a guest that died.
boot_section() {
    local log=$1/share$2/dmesg console=$1/console$2 lost='' found
    cat "$1/share$2/results/boot" 2>/dev/null || :
    printf '1..0\n# ended: 0\n'
    [ -s "$log" ] || log=$console
    found=$(mktemp)
    of_no_test <"$log" >"$found" || lost=yes
    of_no_test <"$console" >>"$found" || :
    known_reports "$found"
    if [ -n "$lost" ]; then echo "not ok - boot: kernel log: its beginning is lost"; fi
    if reports "$found" >"$found.reports"; then
        echo "# the kernel said:"
        head -n 8 "$found.reports" | tr -d '\r' | sed 's/^/# /'
        echo "not ok - boot: kernel log"
    else
        echo "ok - boot: kernel log"
    fi
    rm -f "$found" "$found.reports"
}

# collect RUN RESULTS NODES LABEL TEST: keep the files of a test. Results of two nodes are named by
# the label, which contains both stacks.
collect() {
    local run=$1 results=$2 nodes=$3 name=$5 file
    if [ "$nodes" = 2 ]; then name=${4%-again}; fi
    sections "$5" "$run" "$nodes" >"$results/$name.ktap"
    for file in "$run"/share?/results/"$5".{dmesg,kmemleak}; do
        if [ -e "$file" ]; then cat "$file" >>"$results/$name.${file##*.}"; fi
    done
    # Additional output of tests: 70-pyverbs writes its counts and logs.
    for file in "$run"/share1/results/*.{tsv,log}; do
        if [ -e "$file" ]; then cp "$file" "$results/"; fi
    done
}

# attempt KERNEL LABEL NODES TEST...: a group; with AGAIN=1, tests that failed only in cases of
# chance.txt are repeated once. The first results are kept in first/, and the report lists these
# failures.
attempt() {
    local kernel=$1 label=$2 nodes=$3 name names=() failed=() results=$out/$1/results
    group "$@"
    [ -n "${AGAIN:-}" ] || return 0
    shift 3
    for name in "$@"; do
        if [ "$nodes" = 2 ]; then name=$label; fi
        if [ -e "$results/$name.ktap" ]; then names+=("$(inside "$results/$name.ktap")"); fi
    done
    for name in $(judge --again "$STACK" "${names[@]}"); do
        mkdir -p "$out/$kernel/first"
        mv "$results/$name".* "$out/$kernel/first/"
        if [ "$nodes" = 2 ]; then name=$1; fi
        failed+=("$name")
    done
    if [ ${#failed[@]} -gt 0 ]; then
        say "once more, since they failed: ${failed[*]}"
        group "$kernel" "$label-again" "$nodes" "${failed[@]}"
    fi
}

# pairs_of KERNEL: the stacks of nodes 1 and 2, for each run of a test with two nodes.
pairs_of() {
    case $1:$STACK in
    # User-Mode Linux has no second node on the wire.
    um:* | um-*:*) ;;
    *:c) echo c:c ;;
    # The debug kernels check our stack: the C stack causes reports on them.
    lockdep:* | kcsan:*) echo "$STACK:$STACK" ;;
    *) echo "$STACK:c c:$STACK" ;;
    esac
}
# pair_label TEST PAIR: without commas, which the emulator interprets in paths.
pair_label() {
    local label=$1-${2/:/-}
    echo "${label//,/+}"
}

# apart KERNEL TEST...: those of the tests that need separate guests: two nodes, a fresh one, or one
# whose time is counted in instructions ("# icount"), independent of the load of the machine.
apart() {
    local kernel=$1 test pair
    shift
    for test in "$@"; do
        if [ "$(field "$test" nodes)" != 2 ]; then
            ICOUNT=$(field "$test" icount) attempt "$kernel" "$test" 1 "$test"
            continue
        fi
        for pair in $(pairs_of "$kernel"); do
            STACK1=${pair%:*} STACK2=${pair#*:} attempt "$kernel" "$(pair_label "$test" "$pair")" 2 "$test"
        done
    done
}

# expect KERNEL TEST...: the results that must exist at the end.
expect() {
    local kernel=$1 test pair
    shift
    for test in "$@"; do
        if [ "$(field "$test" nodes)" != 2 ]; then echo "$test"; continue; fi
        for pair in $(pairs_of "$kernel"); do pair_label "$test" "$pair"; done
    done >"$out/$kernel/expected"
}

# lane COMMAND...: run in a separate process, in parallel, once a seat is free. The seat is free
# again when the process and its children have ended.
lane() {
    local n seat taken=
    while [ -n "${SEATS:-}" ] && [ -z "$taken" ]; do
        for n in 1 2 3; do
            exec {seat}>"$SEATS.$n"
            if flock -n "$seat"; then
                taken=yes
                break
            fi
            exec {seat}>&-
        done
        [ -n "$taken" ] || sleep 2
    done
    # The harness' tests do not take another seat.
    unset SEATS
    "$@"
}

# Stop the tests that run in parallel: first the guest's script, which stops the guest.
beside=()
end_beside() {
    local pid
    for pid in "${beside[@]}"; do
        # shellcheck disable=SC2046
        kill "$pid" $(pgrep -P "$pid") 2>/dev/null || :
    done
    beside=()
}
trap end_beside EXIT
trap 'exit 130' INT TERM

suite() { # KERNEL
    local kernel=$1 test common=() own=() first=() second=() length=0 other_length=0
    local short seconds two pid
    for file in "$guest"/[0-9]*.sh; do
        test=$(basename "$file" .sh)
        # shellcheck disable=SC2053
        [[ $test == $T ]] || continue
        short=$(field "$test" short)
        if [ -n "$SHORT" ] && [ "$short" != yes ] && [[ " $short " != *" $kernel "* ]]; then continue; fi
        # A debug kernel executes too many instructions for tests of time.
        if [ -n "$(field "$test" icount)" ] && [ "$kernel" != fast ]; then continue; fi
        if [ -n "${ALONE:-}" ] || [ "$(field "$test" nodes)" = 2 ] || [ -n "$(field "$test" fresh)$(field "$test" icount)" ]; then
            own+=("$test")
        else
            common+=("$test")
        fi
    done
    if [ $((${#common[@]} + ${#own[@]})) = 0 ]; then without_guest; return; fi
    mkdir -p "$out/$kernel/results" "$out/host/results"
    expect "$kernel" "${common[@]}" "${own[@]}"
    say "guest tests on the $kernel kernel, STACK=$STACK: ${common[*]} ${own[*]}"
    if [ "$STACK" != c ]; then "$TOP/tools/modules.sh" "$kernel"; fi
    # Tests wait more than they compute, so guests run in parallel: one for tests with two nodes,
    # and two for the others, with about equal sums of limits. Not for the whole suite on a debug
    # kernel, which computes more than it waits.
    two=
    if [[ $kernel == fast || $kernel == stock* || $kernel == patched* ]] || { [ "$kernel" = lockdep ] && [ -n "$SHORT" ]; }; then two=yes; fi
    for test in "${common[@]}"; do
        seconds=$(limit "$test")
        if [ -z "$two" ] || [ "$length" -le "$other_length" ]; then
            first+=("$test") length=$((length + seconds))
        else
            second+=("$test") other_length=$((other_length + seconds))
        fi
    done
    lane alone "$kernel" "${own[@]}" &
    beside=($!)
    if [ ${#second[@]} -gt 0 ]; then
        lane attempt "$kernel" other 1 "${second[@]}" &
        beside+=($!)
    fi
    if [ ${#first[@]} -gt 0 ]; then
        lane attempt "$kernel" guest 1 "${first[@]}" &
        beside+=($!)
    fi
    for pid in "${beside[@]}"; do
        wait "$pid" || printf 'not ok - tests ended before their time\n1..1\n# ended: 1\n' >"$out/host/results/beside-$kernel.ktap"
    done
    beside=()
    host_done=yes
}

# alone KERNEL TEST...: tests without guest, or with separate guests.
alone() {
    without_guest
    apart "$@"
}

# without_guest: run the tests without guest, once.
host_done=
without_guest() {
    local name
    [ -z "$host_done" ] || return 0
    mkdir -p "$out/host/results"
    # shellcheck disable=SC2053
    for name in host harness compile-fail; do if [[ $name == $T ]]; then echo $name; fi; done >"$out/host/expected"
    if wants_package; then echo package >>"$out/host/expected"; fi
    if [ "$T" = patches ]; then echo patches >>"$out/host/expected"; fi
    host_tests
    harness_tests
    compile_fail_tests
    package_tests
    patches_tests
    host_done=yes
}

mkdir -p "$out"
lock "test-$(key "$out")"
for kernel in host fast lockdep um um-lockdep kcsan stock stock-7.3 patched patched-y; do rm -rf --one-file-system "${out:?}/$kernel"; done
rm -rf --one-file-system "$out/share" "$out/second-try"
"$TOP/tools/roots.sh" guest
mkdir -p "$out/share/tests" "$out/share/selftests"
"$TOP/tools/kernel.sh" "${kernels%% *}"
cp -r "$CACHE/$("$TOP/tools/kernel.sh" --source "${kernels%% *}")"/tools/testing/selftests/{rdma,kselftest} "$out/share/selftests/"
for kernel in $kernels; do suite "$kernel"; done
if [ -n "${UPDATE:-}" ] && [ "$STACK" = c ] && [ -e "$out/fast/results/pyverbs.tsv" ]; then
    cp "$out/fast/results/pyverbs.tsv" "$guest/pyverbs-peer.tsv"
fi
judge "$(inside "$out")" "$STACK"
