# SPDX-License-Identifier: GPL-2.0
# limit: 900
# A device on a bond of two links, in the modes that are used most, while the links go and come.
. ./ktap.sh
. ./rdma.sh

needs CONFIG_BONDING -- "bonds"

# device I NAME: node I has its addresses and soft-RoCE on NAME.
device() { on "$1" ip link set "$2" mtu 4200 up && rxe_on "$1" "$2"; }
# below I NAME: both links of node I are below NAME.
below() {
    local l
    for l in v w; do
        on "$1" ip link set "$l$1" down && on "$1" ip link set "$l$1" mtu 4200 && on "$1" ip link set "$l$1" master "$2" &&
            on "$1" ip link set "$l$1" up || return
    done
}
bond() { on "$1" ip link add b"$1" type bond miimon 50 mode "${@:2}" && below "$1" b"$1" && device "$1" b"$1"; }
cables() {
    two_nodes_gone || return
    ip netns add n1 && ip netns add n2 && for l in v w; do
        ip link add ${l}1 netns n1 type veth peer name ${l}2 netns n2 || return
    done
}
# two_bonds MODE...: a bond at both ends; bond_and_bridge: a bridge at the other one.
two_bonds() { cables && bond 1 "$@" && bond 2 "$@" && reaches 1 10.0.1.2 && reaches 1 fd01::2; }
bond_and_bridge() {
    cables && bond 1 "$@" && on 2 ip link add b2 type bridge && below 2 b2 && device 2 b2 && reaches 1 10.0.1.2 && reaches 1 fd01::2
}
links_change() { # each goes and comes once; there is always one
    local l before status=0
    traffic -n 16 -l 60000 || return
    for l in v1 w1; do
        on 1 ip link set $l down || status=1
        before=$(packets_sent)
        flowing "$before" || status=1
        on 1 ip link set $l up || status=1
        # A bridge or a partner may take seconds until it uses the link.
        sleep 3
        before=$(packets_sent)
        flowing "$before" || status=1
    done
    cat /tmp/traffic1 /tmp/traffic2
    on 1 cat /proc/net/bonding/b1
    traffic_stop && return $status
}
datagrams() { pair 60 "$1" ib_send_bw -c UD -s 1024 -n 200; }

mode() { # NAME SETUP...
    local name=$1 v
    shift
    check "$name" "$@"
    check "$name: data" verify_sizes
    for v in v4 v6; do
        check "$name: many packets, $v" pair 60 $v ib_write_bw -m 1024 -s 65536 -n 20
        check "$name: datagrams, $v" datagrams $v
    done
    check "$name: links go and come" links_change
}
mode "balance-rr" two_bonds balance-rr
mode "active-backup" bond_and_bridge active-backup
mode "802.3ad" two_bonds 802.3ad lacp_rate fast
mode "balance-alb" bond_and_bridge balance-alb
two_nodes_gone
finish
