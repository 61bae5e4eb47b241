# SPDX-License-Identifier: GPL-2.0
# limit: 480
# Removal of devices and links under traffic: no hang, no crash.
. ./ktap.sh
. ./rdma.sh

link_flap() {
    two_nodes && traffic -T 18 || return
    for _ in 1 2 3; do
        on 1 ip link set v1 down
        sleep 0.2
        on 1 ip link set v1 up
        sleep 0.3
    done
    traffic_stop
}
survives_flap() { # a short one is repaired by retransmission
    two_nodes || return
    (flowing 0; on 2 ip link set v2 down; sleep 0.2; on 2 ip link set v2 up; on 2 ip addr add fd01::2/64 dev v2 nodad) 2>/dev/null &
    verify_pair 60 -r 120 -T 18
    local status=$?
    wait
    return $status
}
port_state() {
    two_nodes && on 1 ip link set v1 down && on 1 ibv_devinfo -d rxe1 | grep -q PORT_DOWN &&
        on 1 ip link set v1 up && wait_until 20 active
}
active() { on 1 ibv_devinfo -d rxe1 | grep -q PORT_ACTIVE; }
# The C driver lets a removal wait for the device's users, ours may cut them off.
# Either way it must be over soon after the users are gone.
removal_under_traffic() { # CMD...
    local remover
    two_nodes && traffic || return
    "$@" &
    remover=$!
    sleep $((2 * SCALE))
    traffic_stop || return
    if wait_until 60 not running $remover; then wait $remover; return; fi
    echo "the removal did not come to its end:"
    cat /proc/$remover/stack
    return 1
}
gone() {
    wait_until 30 not test -e "/sys/class/infiniband/$1"
}
del_under_traffic() { removal_under_traffic ip netns exec n1 rdma link del rxe1 && gone rxe1; }
netdev_under_traffic() { removal_under_traffic ip netns exec n1 ip link del v1 && gone rxe1 && gone rxe2; }
namespaces_go() { ip netns del n1 && ip netns del n2; }
namespace_under_traffic() { removal_under_traffic namespaces_go && gone rxe1 && gone rxe2; }
ready_or_gone() { grep -qs ready /tmp/left || not running "$1"; }
# Programs keep the pages of their queues when the device has gone.
queues_left_alone() {
    local user
    two_nodes || return
    for _ in 1 2 3; do
        rm -f /tmp/left
        left rxe1 >/tmp/left 2>&1 &
        user=$!
        wait_until 60 ready_or_gone $user
        on 1 rdma link del rxe1
        wait $user || { cat /tmp/left; return 1; }
        on 1 rdma link add rxe1 type rxe netdev v1 || return
    done
    tail -n 1 /tmp/left
}
# A device that is just being made, in whatever step, goes with its interface: with one that is
# removed, and with one that moves to another namespace and is removed there. Each tenth is made
# before its interface goes.
netdev_while_added() {
    local i remover
    ip netns add away && : >/tmp/made || return
    for i in $(seq 40); do
        ip link add d0 type dummy && ip link set d0 up || return
        { rdma link add rxe0 type rxe netdev d0 2>/dev/null && echo made >>/tmp/made; } &
        if [ $((i % 10)) = 0 ]; then wait $!; else sleep "0.0$((RANDOM % 5))$((RANDOM % 10))"; fi
        if [ $((i % 2)) = 0 ]; then ip link del d0; else ip link set d0 netns away && ip -n away link del d0; fi &
        remover=$!
        if ! wait_until 60 not running $remover; then
            echo "round $i: the interface waits for rxe0, which knows nothing of it"
            rdma link del rxe0
            return 1
        fi
        wait
        gone rxe0 || return
    done
    ip netns del away
}
again() { two_nodes && verify_pair 30 -r 3; }

check "netdev removal while its device is added" netdev_while_added
made() {
    echo "$(wc -l </tmp/made) of 40 devices were made"
    [ "$(wc -l </tmp/made)" -ge 3 ]
}
check "some of these devices were made" made
check "port state follows the link" port_state
check "traffic survives a short link down" survives_flap
check "link down and up under traffic" link_flap
check "rdma link del under traffic" del_under_traffic
check "and works again" again
check "netdev removal under traffic" netdev_under_traffic
check "and works again" again
if ours rdma_rxe; then
    check "queues of a device that went are left alone" queues_left_alone
else
    skip "queues of a device that went are left alone" "the C driver waits until they are given back"
fi
check "namespace removal under traffic" namespace_under_traffic
check "and works again" again
finish
