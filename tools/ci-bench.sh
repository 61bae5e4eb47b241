#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# ci-bench.sh LOAD: one bench row of each class, in instructions, against the tables of
# Documentation/performance.md; LOAD is the load average before continuous integration began. A
# rise of more than 5 % fails, if the second run has it, too, and if the tables were made on the
# kernel (name and hash of its configuration) of this run; otherwise it is only reported. On a
# machine with a load of 1 or more nothing is measured. At most four minutes: two guests at a
# time, twice, each bounded.
. "$(dirname "$0")/lib.sh"
. "$TOP/tools/bench/about.sh"

limit=90
KERNEL=fast
out=$BUILD/ci-bench
page=$TOP/Documentation/performance.md
# Those of a class that vary least from boot to boot: a send of 64 B, whose end waits for events,
# varies by 8 % with what ran before it.
rows='^(wire|loop) (write 64 B|send 64 KiB, MTU 1024)$|^wire read latency 8 B$'
object="MR of 4 KiB, register and deregister"
core="AH create and destroy"
cases=("wire write 64 B" "loop write 64 B" "wire send 64 KiB, MTU 1024" "loop send 64 KiB, MTU 1024"
    "wire read latency 8 B" "$object" "core: $core")

if ! awk -v load="${1:?}" 'BEGIN { exit !(load < 1) }'; then
    say "bench rows: NOT MEASURED, the load average was $1 (measured below 1)"
    exit
fi
rm -rf --one-file-system "$out"
mkdir -p "$out"
about >"$out/about"
kernel=$(sed -n 's/^#kernel|\([^|]*\)|.*/\1/p' "$out/about")
{ printf 'GRO= ROWS=%q OBJECTS=%q\n' "$rows" "$object"; cat "$TOP/tools/bench/guest.sh"; } >"$out/speed.script"
{ printf 'OBJECTS=%q\n' "$core"; cat "$TOP/tools/bench/core.sh"; } >"$out/core.script"

# boot NAME STACK MEM RUN: adds the rows of a boot that ended well to figures-RUN. Prefix: the
# core's rows have a name of their own.
boot() {
    local prefix='' status=0
    [ "$1" != core ] || prefix="core: "
    ICOUNT=1 ACCEL=tcg KERNEL=$KERNEL STACK=$2 MEM=$3 QUIET=1 TIMEOUT=$limit \
        "$TOP/tools/boot.sh" "$out/$1" "$out/$1.script" >"$out/$1.log" 2>&1 || status=$?
    if [ $status = 0 ]; then
        sed -n "s/^R|/icount|rust|$prefix/p" "$out/$1/share1/output" >"$out/$1.rows"
    else
        say "bench rows: the boot for $1 ended with status $status (124: it took over $limit s); see ${out#"$TOP"/}/$1.log"
        [ $status != 124 ] || touch "$out/late"
        : >"$out/$1.rows"
    fi
}
both() { # RUN
    local pids=() pid
    boot speed rust 2G & pids+=($!)
    boot core ib_core 3G & pids+=($!)
    for pid in "${pids[@]}"; do wait "$pid"; done
    cat "$out/about" "$out/speed.rows" "$out/core.rows" >"$out/figures-$1"
}
compare() { # FIGURES...: those are paths in the builder root
    in_builder python3 /src/tools/bench/table.py compare "/src/${page#"$TOP"/}" "$kernel" "$@" "${cases[@]}" </dev/null
}

both 1
status=0
compare /src/build/ci-bench/figures-1 || status=$?
if [ $status != 0 ]; then
    say "bench rows: once more"
    both 2
    status=0
    compare /src/build/ci-bench/figures-{1,2} || status=$?
fi
case $status in
    0) say "bench rows: done ('report' lines have no table of this kernel, $kernel, to be compared with)" ;;
    1) die "instructions rose by more than 5 % in two runs" "reduce them, or measure again (make bench) and say why" ;;
    3) # A slow machine is no fault of the tree.
        [ -e "$out/late" ] || die "bench rows are missing after two runs" "see ${out#"$TOP"/}"
        say "bench rows: NOT MEASURED in full, a guest took over $limit s" ;;
    *) die "the figures cannot be compared" "see the lines above" ;;
esac
