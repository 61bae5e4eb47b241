#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# test.sh: host tests, tests of the harness, then the guest suite on KERNEL with STACK; T
# is a glob over test names ("host" and "harness" among them), SHORT=1 takes only the tests marked
# short, or short for this kernel.
# AGAIN=1 gives a test that failed a second chance, and says so; ALONE=1 gives every test a guest
# of its own.
# KERNEL=debug is the suite on um, then on lockdep. Results: build/test/, or
# build/TEST_DIR when two runs must not meet. Runs that share SEATS=FILE have three guests
# (or pairs of them) under way at a time between them.
. "$(dirname "$0")/lib.sh"

T=${T:-*} SHORT=${SHORT:-} STACK=${STACK:-rust} KERNEL=${KERNEL:-fast}
kernels=$KERNEL
[ "$KERNEL" != debug ] || kernels="um lockdep"
guest=$TOP/tools/testing/guest
out=$BUILD/${TEST_DIR:-test}

# field TEST NAME: the value of a "# name: value" line of the test, or "yes" for a
# bare "# name" line.
field() { sed -n "2,8s/^# $2: *//p; 2,8s/^# $2\$/yes/p" "$guest/$1.sh" | head -n 1; }

# limit TEST: its seconds; DURATION= is added for tests that last as long as is asked for.
limit() {
    local seconds
    seconds=$(field "$1" limit)
    if [ -n "$(field "$1" duration)" ]; then seconds=$((seconds + ${DURATION:-0})); fi
    echo "$seconds"
}

host_tests() {
    # shellcheck disable=SC2053
    [[ host == $T ]] || return 0
    [ -e "$TOP/tools/testing/host/Cargo.toml" ] || return 0
    say "host tests (first time: about 3 minutes to compile)"
    local log=$out/host/cargo.log status=0 start=$SECONDS
    mkdir -p "$out/host/results"
    host_cargo test -j2 --release --no-fail-fast </dev/null >"$log" 2>&1 || status=$?
    {
        sed -nE 's/^test (.*) \.\.\. ok$/ok - \1/p; s/^test (.*) \.\.\. FAILED$/not ok - \1/p
            s/^test (.*) \.\.\. ignored.*$/ok - \1 # SKIP marked ignored in its source/p' "$log"
        if [ "$status" != 0 ] && ! grep -q ' FAILED$' "$log"; then
            tail -n 20 "$log" | sed 's/^/# /'
            echo "not ok - the host tests could not be run"
        fi
        echo "# seconds $((SECONDS - start))"
    } >"$out/host/results/host.ktap"
}

harness_tests() {
    # shellcheck disable=SC2053
    [[ harness == $T ]] || return 0
    say "tests of the harness itself: a minute or two"
    local start=$SECONDS
    mkdir -p "$out/host/results"
    "$TOP/tools/testing/harness.sh" >"$out/host/results/harness.ktap" 2>"$out/host/harness.log" </dev/null || :
    echo "# seconds $((SECONDS - start))" >>"$out/host/results/harness.ktap"
}

# group KERNEL LABEL NODES TEST...: run the tests in one boot; when the guest dies
# in one of them, that one has failed and the rest is run in another boot.
group() {
    local kernel=$1 label=$2 nodes=$3 scale=1 limit test run share results left died
    shift 3
    local tests=("$@")
    case $kernel in lockdep) scale=6 ;; um) scale=2 ;; esac
    results=$out/$kernel/results
    run=$out/$kernel/$label
    # Each group has a list of its own: two may be under way.
    share=$out/$kernel/$label.share
    mkdir -p "$results" "$share"
    cp -al "$out/share/." "$share/"
    while [ ${#tests[@]} -gt 0 ]; do
        limit=60
        : >"$share/tests/list"
        for test in "${tests[@]}"; do
            echo "$test $(limit "$test")" >>"$share/tests/list"
            limit=$((limit + ($(limit "$test") + 20) * scale))
        done
        KERNEL=$kernel NODES=$nodes TIMEOUT=$limit SHARE=$share APPEND="log_buf_len=8M" \
            "$TOP/tools/boot.sh" "$run" "$guest/run.sh" || :
        cp "$run"/share*/results/* "$results/" 2>/dev/null || :
        if [ "$nodes" = 2 ]; then merge "$run" "$results" "$label" "${tests[0]}"; fi
        left=()
        died=
        for test in "${tests[@]}"; do
            if grep -qx "$test" "$run/share1/results/finished" 2>/dev/null; then continue; fi
            if [ -z "$died" ]; then
                died=$test
                {
                    echo "# the end of the console:"
                    grep -a . "$run"/console1 | tail -n 20 | sed 's/^/# /'
                    echo "not ok - the guest died or hung in this test"
                } >>"$results/$test.ktap"
                cp "$run/console1" "$results/$test.console"
            else
                left+=("$test")
            fi
        done
        tests=("${left[@]}")
        if [ ${#tests[@]} -gt 0 ]; then say "booting again for the ${#tests[@]} tests after $died"; fi
    done
}

# attempt KERNEL LABEL NODES TEST...: a group; with AGAIN=1 those of its tests that failed get
# a second one. The first results stay in first/, and the report names what had failed in them.
# What a kernel with our modules had to say, and a guest that died, is no matter of luck, and not
# tried again; what kmemleak suspects may be, and what the guest says that has the C stack.
attempt() {
    local kernel=$1 label=$2 nodes=$3 test name results=$out/$1/results failed=() ours='(node 1: )?'
    group "$@"
    [ -n "${AGAIN:-}" ] || return 0
    case "$nodes:${STACK1:-}:${STACK2:-}" in
    2:c:c) ;;
    2:c:*) ours= ;;
    2:*:c) ours='node 1: ' ;;
    esac
    shift 3
    for test in "$@"; do
        name=$test
        [ "$nodes" != 2 ] || name=$label
        grep -qs "^not ok" "$results/$name.ktap" || continue
        if grep -qE "^not ok - (${ours}kernel log|(node 1: )?the guest died)" "$results/$name.ktap"; then continue; fi
        mkdir -p "$out/$kernel/first"
        mv "$results/$name".* "$out/$kernel/first/"
        failed+=("$test")
    done
    if [ ${#failed[@]} -gt 0 ]; then
        say "once more, since they failed: ${failed[*]}"
        group "$kernel" "$label-again" "$nodes" "${failed[@]}"
    fi
}

# merge: a test over two guests has a result on each; the driver is node 2, and node 1 adds
# its failures and what is known of its C modules. The label tells which stacks met.
merge() { # RUN RESULTS LABEL TEST
    rm -f "$2/$4.ktap" "$2/$4.dmesg"
    {
        cat "$1/share2/results/$4.ktap" 2>/dev/null || :
        grep -hE '^not ok|^# |^ok - ' "$1/share1/results/$4.ktap" 2>/dev/null | sed -E 's/^(not ok|ok) - /\1 - node 1: /' || :
    } >"$2/$3.ktap"
    cat "$1"/share?/results/"$4.dmesg" >"$2/$3.dmesg" 2>/dev/null || :
}

# apart KERNEL TEST...: those with guests of their own: two nodes, or a fresh one.
apart() {
    local kernel=$1 test stacks pair label
    shift
    for test in "$@"; do
        if [ "$(field "$test" nodes)" != 2 ]; then attempt "$kernel" "$test" 1 "$test"; continue; fi
        # User-Mode Linux has no second node on the wire.
        if [ "$kernel" = um ]; then continue; fi
        stacks="$STACK:c c:$STACK"
        # The debug kernels judge our stack: the C one has reports of its own there.
        [ "$kernel" != lockdep ] || stacks="$STACK:$STACK"
        [ "$STACK" != c ] || stacks="c:c"
        for pair in $stacks; do
            # The emulator takes a comma in a path for its own.
            label=$test-${pair/:/-}
            STACK1=${pair%:*} STACK2=${pair#*:} attempt "$kernel" "${label//,/+}" 2 "$test"
        done
    done
}

# lane COMMAND...: what runs beside others, in a process of its own: when there is a seat,
# which is free again when that process and all that it started have ended.
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
    # What the harness' tests start needs no other one.
    unset SEATS
    "$@"
}

# What stops the tests that run beside others: the guest's script first, which stops the guest.
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
        if [ -n "$SHORT" ] && [ "$short" != yes ] && [ "$short" != "$kernel" ]; then continue; fi
        if [ -n "${ALONE:-}" ] || [ "$(field "$test" nodes)" = 2 ] || [ -n "$(field "$test" fresh)" ]; then
            own+=("$test")
        else
            common+=("$test")
        fi
    done
    if [ $((${#common[@]} + ${#own[@]})) = 0 ]; then without_guest; return; fi
    say "guest tests on the $kernel kernel, STACK=$STACK: ${common[*]} ${own[*]}"
    if [ "$STACK" != c ]; then "$TOP/tools/modules.sh" "$kernel"; fi
    # Tests wait more than they work, so guests run beside each other: one for what needs two
    # nodes, and two for the rest, of about the same length by their limits. Not for the whole
    # suite on a debug kernel, which works more than it waits.
    two=
    if [ "$kernel" = fast ] || { [ "$kernel" = lockdep ] && [ -n "$SHORT" ]; }; then two=yes; fi
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
        wait "$pid" || echo "not ok - tests ended before their time" >"$out/$kernel/results/beside.ktap"
    done
    beside=()
    host_done=yes
}

# alone KERNEL TEST...: what needs no guest, or guests of its own.
alone() {
    without_guest
    apart "$@"
}

# without_guest: the tests that need none, once.
host_done=
without_guest() {
    [ -z "$host_done" ] || return 0
    host_tests
    harness_tests
    host_done=yes
}

mkdir -p "$out"
lock "test-$(key "$out")"
for kernel in host fast lockdep um; do rm -rf --one-file-system "${out:?}/$kernel"; done
rm -rf --one-file-system "$out/share"
"$TOP/tools/roots.sh" guest
mkdir -p "$out/share/tests" "$out/share/selftests"
"$TOP/tools/kernel.sh" "${kernels%% *}"
cp -r "$CACHE/$("$TOP/tools/kernel.sh" --source)"/tools/testing/selftests/{rdma,kselftest} "$out/share/selftests/"
for kernel in $kernels; do suite "$kernel"; done
if [ -n "${UPDATE:-}" ] && [ "$STACK" = c ] && [ -e "$out/fast/results/pyverbs.tsv" ]; then
    cp "$out/fast/results/pyverbs.tsv" "$guest/pyverbs-peer.tsv"
fi
in_builder python3 /src/tools/testing/report.py "/src/${out#"$TOP"/}" "$STACK" </dev/null
