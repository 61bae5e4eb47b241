#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# run.sh: C against Rust in same-shaped boots that alternate. Medians, spread and
# ratio go into Documentation/performance.md. About 12 minutes on 2 free cores.
#   icount  one CPU, one instruction is one nanosecond of the guest: repeatable,
#           whatever else this machine does; once is enough
#   wall    two CPUs, real time: noisy, but it sees parallelism; REPEATS= times (3)
# MODES= chooses (both), QUICK=1 is icount alone (3 minutes).
# NETEM=1 measures throughput over bad wires instead (netem.sh; icount, medians of three),
# for a table of its own and the plot Documentation/netem.svg.
# GRO=1 measures packets that arrive one by one and are collected (guest.sh; icount).
# FAIR=1 measures what a stream leaves to other work (fair.sh; icount).
# CORE=1 measures the cores, ib_core against ours, below the C driver (core.sh; icount).
. "$(dirname "$0")/../lib.sh"

if [ -n "${QUICK:-}" ]; then MODES=${MODES:-icount}; fi
section=bench script=guest.sh
if [ -n "${NETEM:-}" ]; then section=netem script=netem.sh MODES=icount REPEATS=${REPEATS:-3}; fi
if [ -n "${GRO:-}" ]; then section=gro MODES=icount; fi
if [ -n "${FAIR:-}" ]; then section=fair script=fair.sh MODES=${MODES:-icount}; fi
if [ -n "${CORE:-}" ]; then section=core script=core.sh STACK=ib_core MEM=${MEM:-3G} MODES=${MODES:-icount}; fi
export MEM=${MEM:-2G}
MODES=${MODES:-icount wall} KERNEL=${KERNEL:-fast}
against=${STACK:-rust}
out=$BUILD/bench
rm -rf --one-file-system "$out"
mkdir -p "$out"
{ echo "GRO=${GRO:-}"; cat "$TOP/tools/bench/$script"; } >"$out/script"
stacks="c $against"
[ "$against" != c ] || stacks=c
for mode in $MODES; do
    repeats=${REPEATS:-3}
    if [ "$mode" = icount ]; then repeats=${REPEATS:-1}; fi
    for repeat in $(seq "$repeats"); do
        for stack in $stacks; do
            say "bench $mode, repeat $repeat of $repeats, STACK=$stack (about 1 minute)"
            icount=
            [ "$mode" = wall ] || icount=1
            ICOUNT=$icount ACCEL=tcg SMP=2 STACK=$stack QUIET=1 TIMEOUT=900 \
                "$TOP/tools/boot.sh" "$out/guest" "$out/script" || say "that boot failed; its figures are left out"
            sed -n "s/^R|/$mode|$([ "$stack" = c ] && echo c || echo rust)|/p" "$out/guest/share1/output" >>"$out/figures"
        done
    done
done
mkdir -p "$TOP/Documentation"
in_builder python3 /src/tools/bench/table.py /src/build/bench/figures /src/Documentation/performance.md $section </dev/null
if [ $section = netem ]; then
    in_builder python3 /src/tools/bench/plot.py /src/build/bench/figures /src/Documentation/netem.svg </dev/null
fi
