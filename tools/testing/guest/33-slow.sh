# SPDX-License-Identifier: GPL-2.0
# limit: 300
# UC and UD, which nobody acknowledges, on an interface that is slower than the CPU: the sender waits,
# and the interface's queue, which holds a third of what is sent, drops nothing.
. ./ktap.sh
. ./rdma.sh

needs CONFIG_NET_SCH_TBF -- "an interface that is slower than the CPU"

dropped() { on 1 tc -s qdisc show dev v1 root | grep -oE 'dropped [0-9]+' | cut -d' ' -f2; }
arrived() { on 2 rdma statistic show link rxe2 | grep -oE 'rcvd_pkts [0-9]+' | cut -d' ' -f2; }

kept() { # CMD...
    local before drops sent got
    drops=$(dropped) before=$(arrived) sent=$(packets_sent)
    "$@" || return
    # The rest of the queue.
    sleep 1
    sent=$(($(packets_sent) - sent)) got=$(($(arrived) - before)) drops=$(($(dropped) - drops))
    echo "$sent packets sent, $got arrived, $drops dropped"
    [ "$sent" -gt 900 ] && [ "$drops" = 0 ] && [ "$got" = "$sent" ]
}

check "two nodes" two_nodes 4200
check "10 Mbit/s" on 1 tc qdisc add dev v1 root tbf rate 10mbit burst 16kb limit 400kb
for v in v4 v6; do
    check "UC writes, $v" kept pair 60 $v ib_write_bw -c UC -m 1024 -s 65536 -n 20
    check "UD sends, $v" kept pair 60 $v ib_send_bw -c UD -s 1024 -n 1000
done
on 1 tc qdisc del dev v1 root
two_nodes_gone
finish
