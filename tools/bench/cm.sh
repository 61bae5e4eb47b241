#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The guest's part of a bench of connections (CM=1): cmtime, whose two ends are programs on two
# devices; then connects.c, while other connections are held, and over a wire that loses. Prints
# "R|case|value|unit" lines, of which run.sh makes the table: the time of a step for all connections,
# divided by their number.
cd /share/tests || exit 1
. ./rdma.sh
. /share/env

two_nodes || exit 1

# connections COUNT: what cmtime's client prints.
connections() {
    cm_port=$((${cm_port:-7300} + 1))
    meet 100 cmtime -b 10.0.1.2 -p $cm_port -c "$1" -- cmtime -s 10.0.1.2 -b 10.0.1.1 -p $cm_port -c "$1"
}

# rows COUNT: a row for each step that lasts, of each kind of connection.
rows() {
    awk -v n="$1" '
        /test - no QPs/ { kind = "no QPs" }
        /simulated QPs test/ { kind = "simulated QPs" }
        /[0-9]\) QPs test/ { kind = "QPs" }
        /^(full connect|cm connect|disconnect) / {
            match($0, /^[a-z ]*[a-z]/)
            step = substr($0, 1, RLENGTH)
            split(substr($0, RLENGTH + 1), figures)
            if (figures[2] > 0) printf "R|%d connections, %s: %s|%.2f|us\n", n, kind, step, figures[2] / n
        }'
}

# Once without counting: neighbours, caches and programs are warm after that.
connections 20 >/dev/null || exit 1
for count in ${COUNTS:-100 1000}; do
    connections "$count" >/tmp/cmtime || { tail -n 5 /tmp/cmtime; exit 1; }
    rows "$count" </tmp/cmtime
done

# connects_pair COUNT [HELD]: what the client of connects.c prints, in /tmp/connects.
connects_pair() {
    local server status=0
    cm_port=$((${cm_port:-7300} + 1))
    ip netns exec n2 connects -s 10.0.1.2 $cm_port >/tmp/connects-server 2>&1 &
    server=$!
    accepting 2 && within 900 ip netns exec n1 connects 10.0.1.2 $cm_port 10.0.1.1 "$@" >/tmp/connects || status=$?
    kill $server
    wait $server 2>/dev/null
    [ $status = 0 ] || { cat /tmp/connects /tmp/connects-server; return 1; }
}

for held in ${HELD:-0 1000 10000}; do
    connects_pair 100 "$held" || exit 1
    awk -v held="$held" '/us each/ { printf "R|connection, of 100, %d others held|%s|us\n", held, $5 }' /tmp/connects
done

# lossy NAME: a thousand connections at once over a wire that loses.
lossy() {
    local node status=0
    for node in 1 2; do on $node tc qdisc add dev v$node root netem loss "$LOSS" || return; done
    connects_pair 1000 || status=1
    for node in 1 2; do on $node tc qdisc del dev v$node root; done
    awk -v name="$1" -v loss="$LOSS" '
        / failed, / && $3 > 0 { exit 1 }
        /^p50/ { for (i = 1; i < 6; i += 2) printf "R|1000 connections, loss %s%s: %s|%.1f|ms\n", loss, name, $i, $(i + 1) / 1000 }
    ' /tmp/connects || status=1
    return $status
}

LOSS=${LOSS:-1%}
lossy "" || exit 1
if ours ib_cm; then
    rmmod rdma_ucm rdma_cm ib_cm && modprobe ib_cm early_repeats=0 && modprobe rdma_ucm &&
        reaches 1 10.0.1.2 && connects_pair 20 || exit 1
fi
lossy ", no early repeats" || exit 1
connects_pair 100 || exit 1
awk '/us each/ { printf "R|connection, of 100, no early repeats|%s|us\n", $5 }' /tmp/connects
