#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The guest's part of a bench run: prints "R case value unit" lines, of which
# run.sh makes the table. "wire" is two namespaces over veth, "loop" one device.
cd /share/tests || exit 1
. ./rdma.sh

# At one virtual nanosecond per instruction fewer messages are enough.
small=3000 large=100
if [ -n "${ICOUNT:-}" ]; then small=1000 large=40; fi
two_nodes 4200 || exit 1

# A pair on one device, as pair is one between two.
loop() {
    local tool=$1 g log pid status=0
    shift
    port=$((port + 1))
    g=$(gid 1 10.0.1.1)
    log=$(mktemp)
    within 60 ip netns exec n1 "$tool" -d rxe1 -x "$g" -F -p $port "$@" >"$log" 2>&1 &
    pid=$!
    listening 1 $port
    within 60 ip netns exec n1 "$tool" -d rxe1 -x "$g" -F -p $port "$@" 10.0.1.1 || status=$?
    kill $pid 2>/dev/null
    wait $pid 2>/dev/null
    return $status
}

# figure CASE COLUMN UNIT CMD...: the COLUMN of the line of figures.
figure() {
    local name=$1 column=$2 unit=$3 value
    shift 3
    value=$("$@" 2>&1 | tee /tmp/figure | grep -E '^ *[0-9]+ +[0-9]+ +[0-9.]+' | tail -n 1 | awk -v c="$column" '{ print $c }')
    if [ -n "$value" ]; then
        echo "R|$name|$value|$unit"
    else
        echo "R|$name|failed|$unit"
        tail -n 5 /tmp/figure >&2
    fi
}

for where in wire loop; do
    run=(pair 60 v4)
    if [ $where = loop ]; then run=(loop); fi
    for q in 1 4; do
        [ $q = 1 ] || [ $where = wire ] || continue
        # Column 5 is the message rate in Mpps, 4 the average in MB/s.
        figure "$where send 64 B, $q QP" 5 "Mmsg/s" "${run[@]}" ib_send_bw -s 64 -n $small -q $q
        figure "$where write 64 B, $q QP" 5 "Mmsg/s" "${run[@]}" ib_write_bw -s 64 -n $small -q $q
        figure "$where send 64 KiB, $q QP" 4 "MB/s" "${run[@]}" ib_send_bw -s 65536 -n $large -q $q
        figure "$where write 64 KiB, $q QP" 4 "MB/s" "${run[@]}" ib_write_bw -s 65536 -n $large -q $q
        figure "$where read 64 KiB, $q QP" 4 "MB/s" "${run[@]}" ib_read_bw -s 65536 -n $large -q $q
    done
    # Column 5 of the latency programs is the typical time in us.
    figure "$where send latency 64 B" 5 us "${run[@]}" ib_send_lat -s 64 -n 300 -e
    figure "$where write latency 8 B" 5 us "${run[@]}" ib_write_lat -s 8 -n 300
    figure "$where read latency 8 B" 5 us "${run[@]}" ib_read_lat -s 8 -n 300 -e
done
