#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
# Eight senders into one receiver, through a switch whose port to it carries 100 Mbit/s and marks
# packets that wait for more than 1 ms (ECN; the C driver does not mark its packets capable of that).
# Prints each sender's share in a window of 4 s, Jain's index of fairness, and the length of the queue.
# With time counted in instructions, for our modules or (STACK=c) those in C:
#     ICOUNT=1 ACCEL=tcg make guest SCRIPT=tools/bench/ecn.sh OUT=build/ecn
cd /share/tests || exit 1
. ./rdma.sh

node() { # I: joined to the switch by vI and bI
    ip netns add "n$1" && ip link add "v$1" netns "n$1" type veth peer name "b$1" netns n0 &&
        on 0 ip link set "b$1" master br0 && on 0 ip link set "b$1" up && on "$1" ip link set lo up &&
        on "$1" ip link set "v$1" up && on "$1" ip addr add "10.0.1.$1/24" dev "v$1" &&
        on "$1" rdma link add "rxe$1" type rxe netdev "v$1" &&
        # As from a card: the switch sees each packet.
        on "$1" ethtool -K "v$1" tx-gso-list off >/dev/null
}
ip netns add n0 && on 0 ip link add br0 type bridge && on 0 ip link set br0 up || exit 1
for i in 1 2 3 4 5 6 7 8 9; do node $i || exit 1; done
on 0 tc qdisc add dev b9 root handle 1: tbf rate 100mbit burst 8kb limit 4mb &&
    on 0 tc qdisc add dev b9 parent 1: fq_codel flows 1 limit 3000 target 500ms interval 1s ce_threshold 1ms || exit 1

for i in 1 2 3 4 5 6 7 8; do
    reaches $i 10.0.1.9 || exit 1
    ip netns exec n9 ib_write_bw -d rxe9 -x "$(gid 9 10.0.1.9)" -F -m 1024 -s 65536 -D 12 -p $((9000 + i)) >/tmp/to$i 2>&1 &
    listening 9 $((9000 + i)) || exit 1
    ip netns exec n$i ib_write_bw -d rxe$i -x "$(gid $i 10.0.1.$i)" -F -m 1024 -s 65536 -D 12 -p $((9000 + i)) 10.0.1.9 >/tmp/from$i 2>&1 &
done
sent() { on 0 cat /sys/class/net/b{1..8}/statistics/rx_bytes; }
# The senders have found their rates.
sleep 4
sent >/tmp/before
end=$((SECONDS + 4))
while [ $SECONDS -lt $end ]; do queue_length 0 b9; done >/tmp/backlog
sent >/tmp/after
paste /tmp/before /tmp/after | awk '{ x = $2 - $1; s += x; q += x * x; printf "E|sender %d|%.2f|MB\n", NR, x / 1e6 }
    END { printf "E|all|%.2f|MB\nE|fairness (Jain)|%.4f|\n", s / 1e6, s * s / (NR * q) }'
sort -n /tmp/backlog | awk '{ a[NR] = $1; s += $1 }
    END { printf "E|queue: mean, median, 95th, longest of %d looks|%.0f, %d, %d, %d|packets\n", NR, s / NR, a[int((NR + 1) / 2)], a[int(NR * 0.95 + 0.5)], a[NR] }'
on 0 tc -s qdisc show dev b9
for i in 1 9; do on $i rdma statistic show link rxe$i; done | grep -oE '(out_of_seq_request|completer_retry_err|np_ecn_marked_roce_packets|np_cnp_sent|rp_cnp_handled) [0-9]+'
wait
grep -hE '^ *65536' /tmp/from? || tail -n 3 /tmp/from1
