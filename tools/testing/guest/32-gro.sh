# SPDX-License-Identifier: GPL-2.0
# limit: 700
# Packets that arrive one by one and are received as one buffer (GRO): which are, which
# are not, and that a buffer that is sent on after all leaves as the packets that came.
# Every byte is verified.
. ./ktap.sh
. ./rdma.sh

counter() { on "$1" rdma statistic show link "rxe$1" | grep -oE "$2 [0-9]+" | cut -d' ' -f2; }
# Datagrams that UDP has handed on in a node, whatever the number of packets in each.
datagrams() { on "$1" awk '/^(Udp|Udp6InDatagrams)[: ]/ && $2 ~ /^[0-9]+$/ { n += $2 } END { print n }' /proc/net/snmp /proc/net/snmp6; }
crossed() { on "$1" cat "/sys/class/net/$2/statistics/tx_packets"; }

# count CMD...: $p packets came to rxe2, in $b buffers.
count() {
    p=$(counter 2 rcvd_pkts) b=$(datagrams 2)
    "$@" || return
    p=$(($(counter 2 rcvd_pkts) - p)) b=$(($(datagrams 2) - b))
    echo "$p packets in $b buffers"
}
# patient NODE DEVICE CMD...: what came there may wait for more, for a millisecond, also when
# nothing more is there yet: how busy the host is does not matter then.
patient() {
    local node=$1 wait=/sys/class/net/$2/gro_flush_timeout status=0
    shift 2
    on "$node" tee "$wait" <<<1000000 >/dev/null
    "$@" || status=$?
    on "$node" tee "$wait" <<<0 >/dev/null
    return $status
}
# Without, there are as many buffers as packets; how few there are depends on the host.
merged() { patient 2 v2 count "$@" && [ $((b * 4)) -lt $((p * 3)) ]; }
single() { count "$@" && [ "$b" -ge "$p" ]; }

large() { pair 60 "$1" ib_send_bw -m 1024 -s 65536 -n 50 -e; }
ping_pong() { pair 60 v4 ib_send_lat -s 8 -n 500 -e; }

# as_a_card NODE DEVICE: what it sends is taken apart, what comes to it is polled for. (A
# veth takes a sender that segments TCP for one that is not worth it.)
as_a_card() { on "$1" ethtool -K "$2" tx-gso-list off tso off && on "$1" ethtool -K "$2" gro on; }

cards() {
    two_nodes 4200 && as_a_card 1 v1 && as_a_card 2 v2
}

tag_gone() {
    for i in 1 2; do on $i ip link del w$i 2>/dev/null; done
}
# tags: the same addresses, but on VLANs.
tags() {
    local i
    cards || return
    for i in 1 2; do
        on $i ip addr flush dev v$i scope global
        on $i ip link add link v$i name w$i type vlan id 5 && on $i ip link set w$i up || return
        on $i ip addr add 10.0.1.$i/24 dev w$i
    done
    ends_meet
}

# middle: nodes 1 and 2 with node 0 between them, all with soft-RoCE: so node 0 would take
# packets to the port for its own.
middle() {
    local i
    two_nodes_gone
    three_in_a_row || return
    for i in 1 2; do as_a_card $i v$i && as_a_card 0 b$i || return; done
    on 0 ip link add d0 type dummy && on 0 ip link set d0 up && on 0 ip addr add 10.9.9.9/32 dev d0 &&
        on 0 rdma link add rxe0 type rxe netdev d0
}
bridged() { middle && bridge_between && ends && ends_meet; }
routed() { middle && router_between && ends && ends_meet; }
# redirected: node 0 has the address of node 2, and its hardware address, so it takes the
# packets for its own, and then tc sends them on.
redirected() {
    local mac
    middle && ends && on 0 ip addr add 10.0.1.2/32 dev b1 || return
    mac=$(on 2 cat /sys/class/net/v2/address)
    on 0 ip link set b1 address "$mac"
    on 1 ip neigh replace 10.0.1.2 lladdr "$mac" dev v1
    on 2 ip neigh replace 10.0.1.1 lladdr "$(on 1 cat /sys/class/net/v1/address)" dev v2
    on 0 tc qdisc add dev b1 clsact && on 0 tc qdisc add dev b2 clsact || return
    on 0 tc filter add dev b1 ingress matchall action mirred egress redirect dev b2 &&
        on 0 tc filter add dev b2 ingress matchall action mirred egress redirect dev b1 &&
        ends_meet
}
# passed_on whole|apart CMD...: how packets left node 0, with CMD.
passed_on() {
    local how=$1 c
    shift
    c=$(crossed 0 b2)
    patient 0 b1 count "$@" || return
    c=$(($(crossed 0 b2) - c))
    echo "$c buffers sent on"
    if [ "$how" = whole ]; then [ $((c * 2)) -lt "$p" ]; else [ "$c" -ge "$p" ]; fi
}
# Times to live that came to node 2, and every ICRC, as others read them.
captured() {
    local dump
    on 2 ethtool -K v2 gro off
    rm -f /tmp/gro.dump
    ip netns exec n2 tcpdump -i v2 -s 0 -w /tmp/gro.pcap --immediate-mode udp port 4791 and src 10.0.1.1 >/tmp/gro.dump 2>&1 &
    dump=$!
    captures /tmp/gro.dump && "$@" || { kill $dump; return 1; }
    sleep 1
    kill -INT $dump
    wait $dump
    on 2 ethtool -K v2 gro on
    python3 ./icrc.py /tmp/gro.pcap 10.0.1.1
}
one_ttl() {
    local ttls
    ttls=$(tcpdump -n -v -r /tmp/gro.pcap 2>/dev/null | grep -o 'ttl [0-9]*' | sort | uniq -c)
    echo "$ttls"
    [ "$(echo "$ttls" | wc -l)" = 1 ]
}

if ! ours rdma_rxe; then
    skip "packets that arrive one by one" "the C driver does not collect them"
    finish
fi
check "two nodes" cards
check "large messages are received as few buffers" merged large v4
check "over IPv6" merged large v6
check "and data are right" verify_sizes
check "path MTU 4096" merged verify_sizes -m 4096
check "path MTU 256" merged verify_sizes -m 256
check "who waits for an answer is not kept waiting" patient 2 v2 single ping_pong
check "several queue pairs" merged pair 60 v4 ib_send_bw -m 1024 -s 65536 -n 10 -q 4 -e
on 2 ethtool -K v2 gro off
check "without GRO each comes by itself" single large v4
on 2 ethtool -K v2 gro on
for i in 1 2; do on $i ethtool -K v$i rx-gro-list on; done
check "the device collects, too" merged large v4
for i in 1 2; do on $i ethtool -K v$i rx-gro-list off; done
on 1 ethtool -K v1 tx-gso-list on
check "trains and single packets" verify_sizes
on 1 ethtool -K v1 tx-gso-list off
rm -f /tmp/gro.dump
on 2 tcpdump -q -i v2 -w /dev/null 2>/tmp/gro.dump &
captures /tmp/gro.dump
check "data while the receiver is captured" verify_sizes
kill %1 2>/dev/null
wait %1 2>/dev/null
verify_under "loss 2%" "duplicate 2%" "delay 2ms reorder 20% 50%"
check "VLANs" tags
check "data over them" verify_sizes
check "large messages over them" merged large v4
tag_gone

check "a bridge between the nodes, with soft-RoCE of its own" bridged
on 0 ethtool -K b2 tx-gso-list on
check "what it passes on is not collected" passed_on apart large v4
check "data over it" verify_sizes
check "a router between the nodes, with soft-RoCE of its own" routed
on 0 ethtool -K b2 tx-gso-list on
check "what it passes on is not collected" passed_on apart captured large v4
check "each packet is one hop older" one_ttl
check "data through it" verify_sizes
check "what is collected is sent on after all" redirected
check "each packet as it came" passed_on apart captured large v4
check "none of them older" one_ttl
check "data that way" verify_sizes
on 0 ethtool -K b2 tx-gso-list on
check "sent on as one buffer" passed_on whole large v4
check "data that way" verify_sizes
two_nodes_gone
finish
