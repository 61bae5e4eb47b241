# SPDX-License-Identifier: GPL-2.0
# limit: 900
# Rules that an operator gives an interface or a host (nft, tc) reach every packet, whether one is
# sent by a doorbell or many. What comes by the wire is captured behind the rules.
. ./ktap.sh
. ./rdma.sh

# many, one, both V...: messages of 64 packets, messages of one packet, one after another.
many() { pair 40 "$1" ib_write_bw -m 1024 -s 65536 -n 5 "${@:2}"; }
one() { pair 40 "$1" ib_send_bw -s 64 -n 50 -t 1 "${@:2}"; }
both() { many "$1" && one "$1"; }
# broken V: traffic that does not arrive, as rules change what the ICRC covers.
# The programs give up soon.
broken() { local patience=10; many "$1" >/dev/null 2>&1 || :; }

reached() { # FIELD VALUE TRAFFIC...
    local field=$1 value=$2 before status=0
    shift 2
    before=$(packets_sent)
    capture 2 v2 /tmp/rules.pcap -Q in -s 96 -B 16384 udp dst port 4791 -- "$@" || status=$?
    python3 rules.py /tmp/rules.pcap $(($(packets_sent) - before)) "$field" "$value" && return $status
}

no_rules() {
    local n
    for n in 1 2; do
        on $n nft flush ruleset
        on $n tc qdisc del dev v$n clsact
        on $n tc qdisc del dev v$n root
    done 2>/dev/null
    on 1 ip link set v1 txqueuelen 1000
}

# Rules, each for both families.
nft_1() { on 1 nft -f -; }
dscp() { nft_1 <<<"table inet t { chain c { type filter hook $1 priority mangle
    meta nfproto ipv4 udp dport 4791 ip dscp set af21
    meta nfproto ipv6 udp dport 4791 ip6 dscp set af21
}; }"; }
ttl() { nft_1 <<<"table inet t { chain c { type filter hook postrouting priority mangle
    meta nfproto ipv4 udp dport 4791 ip ttl set 9
    meta nfproto ipv6 udp dport 4791 ip6 hoplimit set 9
}; }"; }
mark() { nft_1 <<<"table inet t {
    chain o { type route hook output priority mangle; udp dport 4791 meta mark set 7; }
    chain p { type filter hook postrouting priority mangle
        meta mark 7 meta nfproto ipv4 ip dscp set af21
        meta mark 7 meta nfproto ipv6 ip6 dscp set af21
}; }"; }
port() { nft_1 <<<"table inet t { chain c { type filter hook output priority mangle
    udp dport 4791 udp sport set 5555
}; }"; }
nat() { nft_1 <<<"table inet t { chain c { type nat hook postrouting priority srcnat
    meta nfproto ipv4 udp dport 4791 snat ip to 10.0.1.77
    meta nfproto ipv6 udp dport 4791 snat ip6 to fd01::77
}; }"; }
nat_port() { nft_1 <<<"table inet t { chain c { type nat hook postrouting priority srcnat
    meta nfproto ipv4 udp dport 4791 snat ip to 10.0.1.1:6001
    meta nfproto ipv6 udp dport 4791 snat ip6 to [fd01::1]:6001
}; }"; }
egress() { nft_1 <<<"table netdev t { chain c { type filter hook egress device v1 priority 0
    meta protocol ip udp dport 4791 ip dscp set af21
    meta protocol ip6 udp dport 4791 ip6 dscp set af21
}; }"; }
# Neighbour discovery is of no use with a hop limit that was changed: each knows the other.
pedit() { # PARENT...
    local i
    for i in 1 2; do
        on $i ip neigh replace fd01::$((3 - i)) lladdr "$(on $((3 - i)) cat /sys/class/net/v$((3 - i))/address)" dev v$i nud permanent || return
    done
    on 1 tc filter add dev v1 "$@" protocol ip prio 1 matchall action pedit ex munge ip ttl set 9 pipe csum ip &&
        on 1 tc filter add dev v1 "$@" protocol ipv6 prio 2 matchall action pedit ex munge ip6 hoplimit set 9
}
clsact() { on 1 tc qdisc add dev v1 clsact && pedit egress; }
classes() { on 1 tc qdisc add dev v1 root handle 1: prio && pedit parent 1:; }
skbedit() {
    on 1 tc qdisc add dev v1 root handle 1: prio && on 1 tc qdisc add dev v1 clsact &&
        on 1 tc filter add dev v1 egress matchall action skbedit priority 1:3
}
in_band() { # all packets that are sent go through the third band
    local sent before
    before=$(packets_sent)
    "$@" || return
    sent=$(($(packets_sent) - before))
    on 1 tc -s class show dev v1
    before=$(on 1 tc -s class show dev v1 | grep -A 1 'prio 1:3' | grep -oE '[0-9]+ pkt' | cut -d' ' -f1)
    echo "$sent packets sent, $before in the band"
    [ "$before" -ge "$sent" ]
}

# rule NAME FIELD VALUE4 VALUE6 [broken] -- SETUP...
rule() {
    local name=$1 field=$2 value4=$3 value6=$4 traffic=both
    shift 4
    if [ "$1" = broken ]; then traffic=broken; shift; fi
    shift
    no_rules
    check "$name: the rule" "$@"
    check "$name: v4" reached "$field" "$value4" $traffic v4
    check "$name: v6" reached "$field" "$value6" $traffic v6
}

with() { # NAME SYMBOL... -- RULE...: a rule that needs options
    local symbols=() name=$1
    shift
    while [ "$1" != -- ]; do symbols+=("$1"); shift; done
    shift
    if has_config "${symbols[@]}"; then rule "$name" "$@"; else skip "$name" "this kernel has no $without"; fi
}

carried() { on 1 cat /sys/class/net/v1/statistics/tx_packets; }
whole() {
    local s c
    s=$(packets_sent) c=$(carried)
    many v4 || return
    s=$(($(packets_sent) - s)) c=$(($(carried) - c))
    echo "$s packets in $c buffers"
    [ $((c * 3)) -lt "$s" ]
}

check "two nodes" two_nodes 4200
if ours rdma_rxe; then check "without rules, trains" whole; fi
with "nft dscp in output" CONFIG_NF_TABLES_INET -- class 72 72 -- dscp output
with "nft dscp in postrouting" CONFIG_NF_TABLES_INET -- class 72 72 -- dscp postrouting
with "nft ttl" CONFIG_NF_TABLES_INET -- ttl 9 9 -- ttl
with "nft mark" CONFIG_NF_TABLES_INET -- class 72 72 -- mark
with "nft source port" CONFIG_NF_TABLES_INET -- port 5555 5555 broken -- port
with "nft source NAT" CONFIG_NFT_NAT -- source 10.0.1.77 fd01::77 broken -- nat
with "nft NAT of the source port" CONFIG_NFT_NAT -- port 6001 6001 broken -- nat_port
with "nft egress" CONFIG_NETFILTER_EGRESS CONFIG_NF_TABLES_NETDEV -- class 72 72 -- egress
with "tc pedit at clsact" CONFIG_NET_ACT_PEDIT CONFIG_NET_ACT_CSUM -- ttl 9 9 -- clsact
with "tc pedit at a qdisc" CONFIG_NET_ACT_PEDIT CONFIG_NET_ACT_CSUM -- ttl 9 9 -- classes
no_rules
if has_config CONFIG_NET_ACT_SKBEDIT CONFIG_NET_SCH_PRIO; then
    check "tc skbedit: the rule" skbedit
    check "tc skbedit: v4" in_band both v4
else
    skip "tc skbedit" "this kernel has no $without"
fi
no_rules
if ours rdma_rxe; then check "without rules, trains again" whole; fi

# A host between the nodes, on the same machine, with rules of its own.
row() { two_nodes_gone && three_in_a_row && "$1" && for i in 1 2; do on $i ip link set v$i mtu 4200 && on 0 ip link set b$i mtu 4200; done && ends && ends_meet; }
forward() { on 0 nft -f - <<<"table $1 t { chain c { type filter hook forward priority 0
    udp dport 4791 ip dscp set af21
}; }"; }
check "a router between the nodes" row router_between
check "forwarded: the rule" forward ip
check "forwarded: v4" reached class 72 verify_sizes
check "a bridge between the nodes" row bridge_between
if has_config CONFIG_NF_TABLES_BRIDGE; then
    check "bridged: the rule" forward bridge
    check "bridged: v4" reached class 72 verify_sizes
else
    skip "bridged" "this kernel has no $without"
fi
two_nodes_gone
finish
