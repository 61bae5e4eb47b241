#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# run.sh: C against Rust in same-shaped boots that alternate. Medians, spread and
# ratio go into Documentation/performance.md, with the tree, kernel and date of the figures.
#   icount  one CPU, one instruction is one nanosecond of the guest: repeatable,
#           whatever else this machine does
#   wall    two CPUs, real time: noisy, but it sees parallelism
# MODES= chooses (both), REPEATS= boots of each driver (3), QUICK=1 is one boot of icount alone.
# A normal run measures the speed table (section bench), and the wire whose packets cross one by
# one, as through a network card (section gro; icount). These replace it:
# GRO=1 measures the packets that cross one by one alone.
# UD=1 measures datagrams and unreliable connections (guest.sh; icount).
# NETEM=1 measures throughput over bad wires (netem.sh; icount) and draws Documentation/netem.svg.
# FAIR=1 measures what a stream leaves to other work (fair.sh; icount).
# CORE=1 measures the cores, ib_core against ours, below the C driver (core.sh; icount).
# VERBS=1 measures ib_uverbs and its support, the C modules against ours, on our core and driver
# (guest.sh; icount).
# TCP=1 measures TCP on the same wire, and sizes that the speed table leaves out (guest.sh; icount).
# ULP=1 measures the kernel's own users of RDMA: storage, files, RDS (ulp.sh; icount).
# CM=1 measures connections, the C modules of connection management against ours, on our core and
# driver (cm.sh; icount); COUNTS, HELD and LOSS are those of cm.sh.
# A boot that fails gives no figures, and counts in the n/N of its rows. The exit status is 1 then.
. "$(dirname "$0")/../lib.sh"
. "$TOP/tools/bench/about.sh"

KERNEL=${KERNEL:-fast}
if [ -n "${QUICK:-}" ]; then MODES=${MODES:-icount} REPEATS=${REPEATS:-1}; fi
out=$BUILD/bench
rm -rf --one-file-system "$out"
mkdir -p "$out"
# Before the first table is written, which changes the tree.
about >"$out/about"
bad=0

# measure SECTION SCRIPT MODES: boots of both stacks by turns, and the section's tables.
measure() {
    local section=$1 script=$2 modes=$3 mode repeat stack stacks icount name verdict
    local repeats=${REPEATS:-3} c=c against=${STACK:-rust} settings="GRO= UD="
    case $section in
    core) against=ib_core ;;
    tcp) settings="GRO= UD= TCP=1" ;;
    gro) settings="GRO=1 UD=" ;;
    ud) settings="GRO= UD=1" ;;
    uverbs)
        c=ib_core,ib_umad,rdma_rxe
        settings="GRO= UD= VERBS=1 ROWS='^loop send 64 B$'"
        ;;
    cm)
        c=ib_core,ib_umad,ib_uverbs,ib_uverbs_support,rdma_rxe
        settings="COUNTS='${COUNTS:-}' HELD='${HELD:-}' LOSS='${LOSS:-}'"
        ;;
    esac
    stacks="$c $against"
    [ "$against" != "$c" ] || stacks=$c
    if [ "$section" = ulp ]; then settings+=" ULPS='${ULPS:-}' ROWS='${ROWS:-}'"; fi
    { echo "$settings"; cat "$TOP/tools/bench/$script"; } >"$out/script"
    cp "$out/about" "$out/figures-$section"
    for mode in $modes; do
        for repeat in $(seq "$repeats"); do
            for stack in $stacks; do
                say "bench $section $mode, repeat $repeat of $repeats, STACK=$stack (about 1 minute)"
                icount=
                [ "$mode" = wall ] || icount=1
                name=rust verdict=ok
                [ "$stack" != "$c" ] || name=c
                ICOUNT=$icount ACCEL=tcg SMP=2 STACK=$stack QUIET=1 TIMEOUT=${TIMEOUT:-900} \
                    "$TOP/tools/boot.sh" "$out/guest" "$out/script" || verdict=failed
                if [ $verdict = ok ]; then
                    sed -n "s/^R|/$mode|$name|/p" "$out/guest/share1/output" >>"$out/figures-$section"
                else
                    say "that boot failed; its figures are left out"
                    bad=1
                fi
                echo "#boot|$mode|$name|$verdict" >>"$out/figures-$section"
            done
        done
    done
    in_builder python3 /src/tools/bench/table.py write "/src/build/bench/figures-$section" \
        /src/Documentation/performance.md "$section" </dev/null || bad=1
}

if [ -n "${CORE:-}${VERBS:-}${CM:-}" ]; then export MEM=${MEM:-3G}; fi
export MEM=${MEM:-2G}
if [ -n "${NETEM:-}" ]; then
    measure netem netem.sh icount
    in_builder python3 /src/tools/bench/plot.py /src/build/bench/figures-netem /src/Documentation/netem.svg </dev/null
elif [ -n "${GRO:-}" ]; then
    measure gro guest.sh icount
elif [ -n "${UD:-}" ]; then
    measure ud guest.sh icount
elif [ -n "${FAIR:-}" ]; then
    measure fair fair.sh "${MODES:-icount}"
elif [ -n "${VERBS:-}" ]; then
    measure uverbs guest.sh "${MODES:-icount}"
elif [ -n "${TCP:-}" ]; then
    measure tcp guest.sh icount
elif [ -n "${ULP:-}" ]; then
    measure ulp ulp.sh icount
elif [ -n "${CM:-}" ]; then
    measure cm cm.sh "${MODES:-icount}"
elif [ -n "${CORE:-}" ]; then
    measure core core.sh "${MODES:-icount}"
else
    measure bench guest.sh "${MODES:-icount wall}"
    case " ${MODES:-icount wall} " in *" icount "*) measure gro guest.sh icount ;; esac
fi
"$TOP/tools/bench/check.sh" mark
exit $bad
