# SPDX-License-Identifier: GPL-2.0
# limit: 900
# What takes packets off their way and brings them back, or copies them: tc mirred, a queue of nft to a
# program, and connection tracking. Each sees every packet, and the data arrive.
. ./ktap.sh
. ./rdma.sh

# many, one, both V: messages of 64 packets, messages of one packet, one after another.
many() { pair 60 "$1" ib_write_bw -m 1024 -s 65536 -n 5; }
one() { pair 60 "$1" ib_send_bw -s 64 -n 50 -t 1; }
datagrams() { pair 60 "$1" ib_send_bw -c UD -s 1024 -n 200; }
both() { many "$1" && one "$1" && datagrams "$1"; }
# lost V: traffic that does not arrive. The programs give up soon.
lost() { local patience=10; many "$1" >/dev/null 2>&1 || :; }

clean() {
    local n
    for n in 1 2; do
        on $n nft flush ruleset
        on $n tc qdisc del dev v$n clsact
    done 2>/dev/null
    return 0
}

# copied NODE DEVICE TRAFFIC...: each packet that node 1 sends comes out of DEVICE, as one datagram.
copied() {
    local node=$1 device=$2 before status=0
    shift 2
    before=$(packets_sent)
    capture "$node" "$device" /tmp/hooks.pcap -Q in -s 96 -B 16384 udp dst port 4791 -- "$@" || status=$?
    python3 rules.py /tmp/hooks.pcap $(($(packets_sent) - before)) any any && return $status
}
# elsewhere NODE: a cable from aside0 to aside1, both ends in the node.
elsewhere() {
    on "$1" ip link add aside0 type veth peer name aside1 && on "$1" ip link set aside0 mtu 4200 up && on "$1" ip link set aside1 mtu 4200 up
}
mirred() { # NODE DIRECTION ACTION: for packets to the port of RoCE
    local v
    on "$1" tc qdisc add dev v"$1" clsact || return
    for v in ip ip6; do
        on "$1" tc filter add dev v"$1" "$2" protocol ${v/ip6/ipv6} u32 match $v dport 4791 0xffff action mirred egress "$3" dev aside0 || return
    done
}

# by_mirred NAME NODE DIRECTION ACTION TRAFFIC
by_mirred() {
    local v
    check "$1" mirred "$2" "$3" "$4"
    for v in v4 v6; do check "$1: $v" copied "$2" aside1 "$5" $v; done
    clean
}

# queued TRAFFIC...: a program accepts each packet that node 1 sends, as one datagram.
queued() {
    local sent
    observed bound ip netns exec n1 python3 nfqueue.py 5 -- "$@" && grep -qx "$sent accepted, short 0" /tmp/observer
}
queue() { on 1 nft -f - <<<"table inet t { chain c { type filter hook $1 priority 0
    udp dport 4791 queue num 5
}; }"; }

# firewall: each node lets pass what belongs to a connection that node 1 began.
firewall() {
    local n
    for n in 1 2; do
        on $n nft -f - <<<"table inet t {
            counter passed { }
            chain i { type filter hook input priority 0
                udp dport 4791 ct state invalid drop
                udp dport 4791 ct state new,established accept
            }
            chain o { type filter hook postrouting priority 0
                udp dport 4791 ct state new,established counter name passed accept
                udp dport 4791 drop
            }
        }" || return
    done
}
passed() { on 1 nft list counter inet t passed | grep -oE 'packets [0-9]+' | cut -d' ' -f2; }
tracked() {
    local before sent
    before=$(passed) sent=$(packets_sent)
    "$@" || return
    sent=$(($(packets_sent) - sent)) before=$(($(passed) - before))
    echo "$sent packets sent, $before passed the rule"
    [ "$sent" = "$before" ]
}

check "two nodes" two_nodes 4200
if has_config CONFIG_NET_ACT_MIRRED CONFIG_NET_CLS_U32 CONFIG_NET_SCH_INGRESS; then
    check "cables elsewhere" eval 'elsewhere 1 && elsewhere 2'
    by_mirred "mirror, sent" 1 egress mirror both
    by_mirred "redirect, sent" 1 egress redirect lost
    by_mirred "mirror, received" 2 ingress mirror both
    by_mirred "redirect, received" 2 ingress redirect lost
else
    skip "mirred" "this kernel has no $without"
fi
if has_config CONFIG_NFT_QUEUE CONFIG_NETFILTER_NETLINK_QUEUE; then
    for hook in output postrouting; do
        check "nft queue, $hook" queue $hook
        for v in v4 v6; do check "nft queue, $hook: $v" queued both $v; done
        clean
    done
else
    skip "nft queue" "this kernel has no $without"
fi
if has_config CONFIG_NFT_CT; then
    check "connection tracking" firewall
    for v in v4 v6; do check "connection tracking: $v" tracked both $v; done
    check "connection tracking: data" tracked verify_sizes
    clean
else
    skip "connection tracking" "this kernel has no $without"
fi
check "data after that" verify_sizes
two_nodes_gone
finish
