# SPDX-License-Identifier: GPL-2.0
# limit: 480
# VLANs over one device, a device on a bond, network devices and namespaces that move
# and go.
. ./ktap.sh
. ./rdma.sh

vlans() {
    local i
    two_nodes || return
    for i in 1 2; do
        on $i ip link add link v$i name v$i.7 type vlan id 7 || return
        on $i ip link set v$i.7 up
        on $i ip addr add 10.0.7.$i/24 dev v$i.7
        on $i ip addr add fd07::$i/64 dev v$i.7 nodad
    done
    reaches 1 10.0.7.2 && gid 1 10.0.7.1 && gid 2 fd07::2
}
# over V: the wire that a pair of programs uses.
over() { # ADDRESS1 ADDRESS2 TOOL ARG...
    local one=$1 two=$2 tool=$3 status=0
    shift 3
    port=$((port + 1))
    within 30 ip netns exec n2 "$tool" -d rxe2 -p $port -g "$(gid 2 "$two")" "$@" >/tmp/over 2>&1 &
    local server=$!
    listening 2 $port && within 30 ip netns exec n1 "$tool" -d rxe1 -p $port -g "$(gid 1 "$one")" "$@" 10.0.1.2 || status=1
    [ $status = 0 ] || kill $server
    wait $server || { tail -n 12 /tmp/over; status=1; }
    return $status
}
tagged() { # packets on the wire below have the tag
    ip netns exec n1 tcpdump --immediate-mode -U -e -n -i v1 -c 20 'vlan 7 and udp port 4791' >/tmp/tagged 2>&1 &
    local dump=$! found
    captures /tmp/tagged
    over 10.0.7.1 10.0.7.2 ibv_rc_pingpong -n 50
    # It ends with the twentieth packet.
    wait_until 20 not running $dump
    kill $dump 2>/dev/null
    wait $dump
    found=$(grep -c 'vlan 7, .*4791' /tmp/tagged)
    echo "$found packets"
    [ "$found" -ge 10 ]
}
vlan_gone() {
    on 1 ip link del v1.7 && wait_until 20 not gid_now 1 10.0.7.1 && gid 1 10.0.1.1 || return
    over 10.0.1.1 10.0.1.2 ibv_rc_pingpong -n 50
}
cm_over_vlan() {
    within 40 ip netns exec n2 rping -s -V -C 5 -a 10.0.7.2 >/tmp/rping 2>&1 &
    local server=$!
    accepting 2 && within 40 ip netns exec n1 rping -c -V -C 5 -a 10.0.7.2 && wait $server
}

# n1 has a bond of two links to a bridge in n2.
bond() {
    local l
    two_nodes || return
    on 1 rdma link del rxe1
    on 1 ip addr flush dev v1
    ip link add w1 type veth peer name w2 && ip link set w1 netns n1 && ip link set w2 netns n2 || return
    on 2 rdma link del rxe2
    on 2 ip addr flush dev v2
    on 2 ip link add br0 type bridge
    for l in v2 w2; do on 2 ip link set $l master br0 && on 2 ip link set $l up || return; done
    on 2 ip link set br0 up
    on 1 ip link add b0 type bond mode active-backup miimon 50 || return
    for l in v1 w1; do on 1 ip link set $l down && on 1 ip link set $l master b0 || return; done
    on 1 ip link set b0 up
    on 1 ip addr add 10.0.1.1/24 dev b0
    on 2 ip addr add 10.0.1.2/24 dev br0
    on 1 rdma link add rxe1 type rxe netdev b0 && on 2 rdma link add rxe2 type rxe netdev br0 || return
    reaches 1 10.0.1.2
}
fail_over() { # a link goes while data flow
    # The kernel may take a second to tell the bridge that a link is back.
    (sleep 1; on 1 ip link set v1 down; sleep 1; on 1 ip link set v1 up; sleep 2; on 1 ip link set w1 down) &
    verify_pair 60 -r 60 -T 18
    local status=$?
    wait
    on 1 ip link set w1 up
    return $status
}
gone() {
    wait_until 30 not test -e "/sys/class/infiniband/$1"
}
netdev_moves() { # its device ends with its stay here, and can be made there anew
    two_nodes || return
    ip netns add n3
    on 1 ip link set v1 netns n3 && gone rxe1 || return
    on 3 ip link set lo up && on 3 ip link set v1 up && on 3 ip addr add 10.0.1.1/24 dev v1 &&
        on 3 rdma link add rxe3 type rxe netdev v1 || return
    reaches 3 10.0.1.2 && [ -e /sys/class/infiniband/rxe3 ]
}
namespace_goes() { ip netns del n3 && gone rxe3; }
# The core's exclusive mode: a device belongs to one namespace, at first the initial
# one, and may be moved.
exclusive() {
    two_nodes_gone
    # Namespaces of earlier cases may still be on their way out.
    wait_until 60 rdma system set netns exclusive
    rdma system show | grep -q exclusive || return
    ip netns add n1 && ip netns add n2 && ip netns add n3 && two_links || return
    on 1 rdma link add rxe1 type rxe netdev v1 && on 2 rdma link add rxe2 type rxe netdev v2 || return
    rdma dev set rxe1 netns n1 && rdma dev set rxe2 netns n2 || return
    on 1 rdma link show | grep rxe1 && ! on 2 rdma link show | grep rxe1
}
two_links() {
    local i
    ip link add v1 type veth peer name v2 || return
    for i in 1 2; do
        ip link set v$i netns n$i && on $i ip link set lo up && on $i ip link set v$i up || return
        on $i ip addr add 10.0.1.$i/24 dev v$i
    done
    reaches 1 10.0.1.2
}
# sysfs shows a device only in its own namespace.
own_gid() { on "$1" bash -c 'mount -t sysfs sysfs /sys; . ./rdma.sh; for g in 0 1 2 3; do case $(cat /sys/class/infiniband/'"$2"'/ports/1/gids/$g) in *:0a00:010'"$1"') echo $g;; esac; done'; }
exclusive_traffic() {
    port=$((port + 1))
    local status=0
    within 30 ip netns exec n2 ibv_rc_pingpong -d rxe2 -g "$(own_gid 2 rxe2)" -p $port >/tmp/over 2>&1 &
    local server=$!
    listening 2 $port && within 30 ip netns exec n1 ibv_rc_pingpong -d rxe1 -g "$(own_gid 1 rxe1)" -p $port 10.0.1.2 || status=1
    [ $status = 0 ] || kill $server
    wait $server || { tail /tmp/over; status=1; }
    return $status
}
device_moves() { on 1 rdma dev set rxe1 netns n3 && on 3 rdma link show | grep rxe1 && ! on 1 rdma link show | grep rxe1; }
# The device falls back to the initial namespace when its own ends, and may then go.
here() { rdma link show | grep "$1"; }
comes_back() { ip netns del n3; wait_until 30 here rxe1 && rdma link del rxe1; }
and_go() { ip netns del n1; ip netns del n2; gone rxe2 && wait_until 60 rdma system set netns shared; }

# Devices whose network devices have just gone still stand where a namespace comes.
namespaces_come() {
    local round i removal n=0
    for round in $(seq 6); do
        for i in $(seq 32); do
            ip link add gone$i group 7 type dummy && rdma link add gone$i type rxe netdev gone$i || return
        done
        ip link del group 7 &
        removal=$!
        while kill -0 $removal 2>/dev/null; do
            unshare -n true || return
            n=$((n + 1))
        done
        for i in $(seq 32); do gone gone$i || return; done
    done
    echo "$n namespaces came meanwhile"
    [ $n -ge 6 ]
}

check "VLANs over both devices" vlans
check "ibv_rc_pingpong over a VLAN" over 10.0.7.1 10.0.7.2 ibv_rc_pingpong -n 100 -c
check "ibv_ud_pingpong over a VLAN" over 10.0.7.1 10.0.7.2 ibv_ud_pingpong -n 100
check "ibv_rc_pingpong over a VLAN, IPv6" over fd07::1 fd07::2 ibv_rc_pingpong -n 100 -c
check "and beside it without" over 10.0.1.1 10.0.1.2 ibv_rc_pingpong -n 100 -c
check "packets have the VLAN's tag" tagged
check_with rdma_ucm "rping over a VLAN" cm_over_vlan
check "the VLAN's end" vlan_gone
check "a device on a bond" bond
check "verified data over a bond" verify_pair 60 -r 10
check "failover under traffic" fail_over
two_nodes_gone
check "a network device moves to another namespace" netdev_moves
check "a namespace ends with a device in it" namespace_goes
two_nodes_gone
if ours ib_core; then check "namespaces come while devices go" namespaces_come; fi
check "exclusive namespaces" exclusive
check "traffic between exclusive namespaces" exclusive_traffic
check "rdma dev set netns" device_moves
check "its namespace ends" comes_back
check "and these end" and_go
finish
