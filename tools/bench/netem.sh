#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The guest's part of a bench over bad wires: prints "R|case|value|unit" lines. The value
# is what perftest calls the average bandwidth of 64 KiB messages at an MTU of 1024. Trains
# are taken apart before the bad wire, since netem would lose them as a whole.
cd /share/tests || exit 1
. ./rdma.sh
# As long as perftest waits for an answer by itself: figures are compared with older ones.
patience=14
. /share/env

two_bridged || exit 1

# figure CASE TOOL: one row.
figure() {
    local value
    # Not in the subshell below, which would forget it.
    port=$((port + 1))
    value=$(pair 60 v4 "$2" -m 1024 -s 65536 -n "$messages" -e 2>&1 | tee /tmp/figure |
        grep -E '^ *[0-9]+ +[0-9]+ +[0-9.]+' | tail -n 1 | awk '$4 > 0 { print $4 }')
    if [ -z "$value" ]; then tail -n 5 /tmp/figure >&2; fi
    echo "R|$1|${value:-failed}|MiB/s"
}

for wire in "loss 0%" "loss 1%" "loss 2%" "loss 5%" "loss 10%" "loss 20%" \
    "delay 1ms reorder 5%" "duplicate 5%" "corrupt 1%" "delay 100ms 30ms"; do
    # shellcheck disable=SC2086
    bad_wire both $wire || exit 1
    messages=100
    case $wire in *10% | *20% | *ms) messages=20 ;; esac
    figure "send, $wire" ib_send_bw
    figure "read, $wire" ib_read_bw
done
