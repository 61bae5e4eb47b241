# SPDX-License-Identifier: GPL-2.0
# limit: 500
# Packets that cross the IP stack as one buffer: through devices that carry it whole,
# that have it taken apart, or look into it. Every byte is verified.
. ./ktap.sh
. ./rdma.sh

sent() { on 1 rdma -j statistic show link rxe1/1 | python3 -c 'import json, sys; print(json.load(sys.stdin)[0]["sent_pkts"])'; }
carried() { on 1 cat /sys/class/net/v1/statistics/tx_packets; }

# whole CMD...: with CMD, buffers on the device are far fewer than packets; apart CMD...:
# with it, they are as many.
count() {
    s=$(sent) c=$(carried)
    "$@" || return
    s=$(($(sent) - s)) c=$(($(carried) - c))
    echo "$s packets in $c buffers"
}
whole() { count "$@" && [ $((c * 3)) -lt "$s" ]; }
apart() { count "$@" && [ "$c" -ge "$s" ]; }

middle_gone() {
    two_nodes_gone
    if [ -e /run/netns/n0 ]; then ip netns del n0; fi
    sleep 0.3
}

middle() { middle_gone && three_in_a_row; }
bridged() { middle && bridge_between && ends && ends_meet; }
routed() { middle && router_between && ends && ends_meet; }
filter() {
    on 0 nft -f - <<'N'
table inet t {
    chain forward {
        type filter hook forward priority 0; policy drop;
        ct state established accept
        ct state new udp dport 4791 accept
    }
}
N
}
vlans() {
    local i
    middle_gone
    ip netns add n1 && ip netns add n2 && ip link add v1 netns n1 type veth peer name v2 netns n2 || return
    for i in 1 2; do
        on $i ip link set v$i up && on $i ip link add link v$i name w$i type vlan id 5 && on $i ip link set w$i up || return
    done
    ends w && ends_meet
}
bonded() {
    middle_gone
    ip netns add n1 && ip netns add n2 && ip link add x1 netns n1 type veth peer name v2 netns n2 || return
    on 1 ip link add v1 type bond mode active-backup miimon 100 && on 1 ip link set x1 master v1 &&
        on 1 ip link set v1 up && on 2 ip link set v2 up && ends && ends_meet
}
features() { # NODE FEATURE STATE ...
    local n=$1
    shift
    on "$n" ethtool -K "v$n" "$@"
}

check "two nodes" two_nodes 4200
if ours rdma_rxe; then
    check "trains over veth stay whole" whole verify_sizes
    check "whole over IPv6" pair 60 v6 ib_send_bw -m 1024 -s 65536 -n 50 -e
    check "without the feature they are taken apart" features 1 tx-gso-list off
    check "data, each packet for itself" apart verify_sizes
    check "the same over IPv6" pair 60 v6 ib_send_bw -m 1024 -s 65536 -n 50 -e
    check "the receiver collects packets" features 2 gro on rx-gro-list on
    check "data to that" apart verify_sizes
    check "the feature again" features 1 tx-gso-list on
    check "data, with the receiver collecting" verify_sizes
    features 2 gro off rx-gro-list off >/dev/null
    check "no segmentation at all" features 1 gso off
    check "data without it" verify_sizes
    features 1 gso on >/dev/null
    check "no checksums, no fragments" features 1 tx off sg off
    check "data without those" verify_sizes
    features 1 tx on sg on >/dev/null
else
    check "data" verify_sizes
fi
check "path MTU 4096" verify_sizes -m 4096
check "path MTU 256" verify_sizes -m 256
on 1 tcpdump -q -i v1 -w /dev/null 2>/dev/null &
on 2 tcpdump -q -i v2 -w /dev/null 2>/dev/null &
sleep 1
check "data while both ends are captured" verify_sizes
kill %1 %2 2>/dev/null
wait %1 %2 2>/dev/null
verify_under "delay 2ms" "loss 2%" "corrupt 1%" "duplicate 2%"

check "a bridge between the nodes" bridged
check "data over it" verify_sizes
check "a router between the nodes" routed
check "data through it" verify_sizes
check "a packet filter with connection tracking" filter
check "data past that" verify_sizes
check "a VLAN" vlans
check "data over it" verify_sizes
check "a bond" bonded
check "data over it" verify_sizes
middle_gone
finish
