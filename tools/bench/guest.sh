#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The guest's part of a bench run: prints "R|case|value|unit" lines, of which run.sh
# makes the table. Every value is a time per message or operation, in us. "wire" is
# two namespaces over a veth that passes batches, "loop" two processes on one device. With GRO=1
# (run.sh puts it in front) there are two other places: "apart" is the wire with packets that
# cross one by one, as through a network card, and "apart with GRO" the same with packets
# collected where they arrive. With UD=1 or TCP=1 there are other rows. ROWS, if set, is a regular
# expression: the rows to measure.
cd /share/tests || exit 1
. ./rdma.sh
# As long as perftest waits for an answer by itself: figures are compared with older ones.
patience=14
. /share/env

# With one CPU, programs that poll would measure the scheduler: they wait for events
# there. At one virtual nanosecond per instruction few messages are enough, but not too
# few: a receiver that is done spins for some milliseconds before the sender can see that
# it is done, too.
if [ -n "${ICOUNT:-}" ]; then
    small=10000 large=50 lat=500
    wait=(-e)
else
    small=3000 large=100 lat=500
    wait=()
fi
mtu=4200
if [ -n "${TCP:-}" ]; then mtu=9000; fi
two_nodes $mtu || exit 1
places=(wire loop)
if [ -n "${GRO:-}" ]; then places=(apart "apart with GRO"); fi
# collect STATE: packets leave one by one; STATE, on or off, is that of GRO.
collect() {
    local i
    for i in 1 2; do on $i ethtool -K v$i tx-gso-list off tso off gro "$1" || return; done
}

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

# wanted NAME: whether ROWS asks for this row.
wanted() { [ -z "${ROWS:-}" ] || [[ $1 =~ $ROWS ]]; }

# figure CASE COLUMN FORMULA CMD...: the line of figures of a perftest program, of
# which COLUMN is turned into us by the awk expression FORMULA of v.
figure() {
    local name=$1 column=$2 formula=$3 value
    shift 3
    wanted "$name" || return 0
    # Not in the subshell below, which would forget it.
    port=$((port + 1))
    value=$("$@" 2>&1 | tee /tmp/figure | grep -E '^ *[0-9]+ +[0-9]+ +[0-9.]+' | tail -n 1 |
        awk -v c="$column" '{ v = $c + 0; if (v > 0) printf "%.3f", '"$formula"' }')
    if [ -n "$value" ]; then
        echo "R|$name|$value|us"
    else
        echo "R|$name|failed|us"
        tail -n 5 /tmp/figure >&2
    fi
}

rate='1 / v'                             # column 5, million messages a second
volume='65536 / 1048576 / v * 1000000'   # column 4, MiB/s of 64 KiB messages

# The rows of datagrams and unreliable connections at one place.
unreliable() {
    local size bytes
    for size in "64 B" "512 B" "2 KiB"; do
        bytes=${size% *}
        [ "$size" != "2 KiB" ] || bytes=2048
        figure "$where UD send $size" 5 "$rate" "${run[@]}" ib_send_bw -c UD -s "$bytes" -n $small "${wait[@]}"
    done
    figure "$where UD send latency 8 B" 5 v "${run[@]}" ib_send_lat -c UD -s 8 -n $lat "${wait[@]}"
    figure "$where UC send 64 B" 5 "$rate" "${run[@]}" ib_send_bw -c UC -s 64 -n $small "${wait[@]}"
    figure "$where UC send 4 KiB, MTU 4096" 5 "$rate" "${run[@]}" ib_send_bw -c UC -m 4096 -s 4096 -n $small "${wait[@]}"
}

# tcp ROW SIZE COUNT [pingpong]: one TCP stream from node 2 to node 1, or round trips.
tcp() {
    local name=$1 value server
    shift
    wanted "$name" || return 0
    port=$((port + 1))
    on 1 stream serve 10.0.1.1 $port "$@" &
    server=$!
    listening 1 $port
    value=$(within 60 ip netns exec n2 stream send 10.0.1.1 $port "$@")
    kill $server 2>/dev/null
    wait $server 2>/dev/null
    echo "R|$name|${value:-failed}|us"
}

# Memory of a queue pair that was not used yet, with its rings, which the program maps.
idle_memory() {
    local count=2000 before
    wanted "memory of an idle QP" || return 0
    mkfifo /tmp/hold
    on 1 rates rxe1 hold 1 </dev/null >/dev/null
    before=$(memory_in_use)
    on 1 rates rxe1 hold $count </tmp/hold >/tmp/held &
    exec 5>/tmp/hold
    if wait_until 60 grep -q held /tmp/held; then
        awk -v used=$(($(memory_in_use) - before)) -v n=$count 'BEGIN { printf "R|memory of an idle QP|%.2f|KiB\n", used / n }'
    else
        echo "R|memory of an idle QP|failed|KiB"
    fi
    exec 5>&-
    wait
}

# What a user would take instead, and the sizes that the other rows leave out, on one wire.
sizes() {
    local mtu
    tcp "wire TCP 8 KiB" 8192 5000
    tcp "wire TCP 64 KiB" 65536 500
    tcp "wire TCP 1 MiB" 1048576 50
    tcp "wire TCP half round trip 8 B" 8 2000 pingpong
    figure "wire send latency 8 B" 5 v pair 60 v4 ib_send_lat -s 8 -n $lat "${wait[@]}"
    for mtu in 1024 4096; do
        figure "wire send 64 KiB, MTU $mtu" 4 "$volume" pair 60 v4 ib_send_bw -m $mtu -s 65536 -n 100 "${wait[@]}"
    done
    figure "wire send 8 KiB, MTU 4096" 5 "$rate" pair 60 v4 ib_send_bw -m 4096 -s 8192 -n 3000 "${wait[@]}"
    figure "wire read 8 KiB, MTU 4096" 5 "$rate" pair 60 v4 ib_read_bw -m 4096 -s 8192 -n 3000 "${wait[@]}"
    figure "wire send 1 MiB, MTU 4096" 4 "16 * $volume" pair 60 v4 ib_send_bw -m 4096 -s 1048576 -n 20 "${wait[@]}"
    figure "wire read 1 MiB, MTU 4096" 4 "16 * $volume" pair 60 v4 ib_read_bw -m 4096 -s 1048576 -n 20 "${wait[@]}"
    # Time for a message of either direction.
    figure "wire send 16 KiB both ways, MTU 4096" 5 "$rate" pair 60 v4 ib_send_bw -b -m 4096 -s 16384 -n 1000 "${wait[@]}"
    figure "wire send 4 KiB, MTU 4096" 5 "$rate" pair 60 v4 ib_send_bw -m 4096 -s 4096 -n 5000 "${wait[@]}"
    figure "wire send 4 KiB, MTU 4096, 64 QPs" 5 "$rate" pair 60 v4 ib_send_bw -m 4096 -s 4096 -q 64 -n 128 "${wait[@]}"
    figure "wire send 4 KiB, MTU 4096, 1024 QPs" 5 "$rate" pair 60 v4 ib_send_bw -m 4096 -s 4096 -q 1024 -t 16 -r 16 -n 16 "${wait[@]}"
    figure "loop send 4 KiB, MTU 4096, 64 QPs" 5 "$rate" loop ib_send_bw -m 4096 -s 4096 -q 64 -n 128 "${wait[@]}"
}
if [ -n "${TCP:-}" ]; then
    sizes
    idle_memory
    exit
fi

for where in "${places[@]}"; do
    run=(pair 60 v4)
    case $where in
        loop) run=(loop) ;;
        apart) collect off || exit 1 ;;
        "apart with GRO") collect on || exit 1 ;;
    esac
    if [ -n "${UD:-}" ]; then
        unreliable
        continue
    fi
    figure "$where send 64 B" 5 "$rate" "${run[@]}" ib_send_bw -s 64 -n $small "${wait[@]}"
    figure "$where write 64 B" 5 "$rate" "${run[@]}" ib_write_bw -s 64 -n $small
    for mtu in 1024 4096; do
        figure "$where send 64 KiB, MTU $mtu" 4 "$volume" "${run[@]}" ib_send_bw -m $mtu -s 65536 -n $large "${wait[@]}"
        figure "$where read 64 KiB, MTU $mtu" 4 "$volume" "${run[@]}" ib_read_bw -m $mtu -s 65536 -n $large "${wait[@]}"
    done
    figure "$where send 64 B, 4 QPs" 5 "$rate" "${run[@]}" ib_send_bw -s 64 -n $((small / 4)) -q 4 "${wait[@]}"
    figure "$where send 64 KiB, MTU 1024, 4 QPs" 4 "$volume" "${run[@]}" ib_send_bw -m 1024 -s 65536 -n $large -q 4 "${wait[@]}"
    # Column 5 of the latency programs is the typical time in us; send and write
    # print half a round trip.
    figure "$where send latency 8 B" 5 v "${run[@]}" ib_send_lat -s 8 -n $lat "${wait[@]}"
    # Two programs that poll share one CPU by time slices, which says nothing.
    [ -n "${ICOUNT:-}" ] || figure "$where write latency 8 B, polling" 5 v "${run[@]}" ib_write_lat -s 8 -n $lat
    figure "$where read latency 8 B" 5 v "${run[@]}" ib_read_lat -s 8 -n $lat "${wait[@]}"
done
# With VERBS=1 also those where ib_uverbs and the core matter more than the driver.
[ -n "${GRO:-}${UD:-}" ] || on 1 env OBJECTS="${OBJECTS:-}" rates rxe1 ${VERBS:+core "$(gid 1 10.0.1.1)"}
