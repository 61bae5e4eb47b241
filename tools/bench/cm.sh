#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# The guest's part of a bench of connections (CM=1): cmtime, whose two ends are programs on two
# devices. Prints "R|case|value|unit" lines, of which run.sh makes the table: the time of a step
# for all connections, divided by their number.
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
