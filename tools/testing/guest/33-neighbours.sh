# SPDX-License-Identifier: GPL-2.0
# limit: 600
# Addresses that are not valid yet (DAD), neighbours that do not answer, routers that refuse, and the
# card of a namespace that ends.
. ./ktap.sh
. ./rdma.sh

tentative() { on 2 ip -6 addr show dev v2 | grep -q 'fd02::2.*tentative'; }
# early: a connection to an address whose DAD takes some seconds is tried at once, and again while it is
# refused: a peer that is asked for its address answers when DAD has ended, and the core waits a second
# for that. Then it carries data.
early() {
    on 1 ip addr add fd02::1/64 dev v1 nodad && on 2 sysctl -q net.ipv6.conf.v2.dad_transmits=4 &&
        on 2 ip addr add fd02::2/64 dev v2 || return
    tentative || { echo "the address is not tentative"; return 1; }
    wait_until 30 pair_of fd02 ib_write_bw -m 1024 -s 65536 -n 20 -u 20 || return
    pair_of fd02 ib_send_bw -s 64 -n 50
}
# duplicate: another host has the address already: it is not usable, and the peer's connection to it fails.
duplicate() {
    on 1 ip addr add fd03::2/64 dev v1 nodad && on 2 ip addr add fd03::2/64 dev v2 &&
        wait_until 20 eval 'on 2 ip -6 addr show dev v2 | grep -q "fd03::2.*dadfailed"' || return
    on 1 ip addr del fd03::2/64 dev v1 && on 1 ip addr add fd03::1/64 dev v1 nodad || return
    ! pair_of fd03 ib_write_bw -s 1024 -n 5 -u 10
}
# pair_of PREFIX TOOL...: pair between the addresses PREFIX::1 and ::2.
pair_of() {
    local prefix=$1 tool=$2 server status=0
    shift 2
    port=$((port + 1))
    within 60 ip netns exec n2 "$tool" -d rxe2 -x "$(gid 2 "$prefix::2")" -F -p $port "$@" >/tmp/server 2>&1 &
    server=$!
    listening 2 $port || status=1
    within 60 ip netns exec n1 "$tool" -d rxe1 -x "$(gid 1 "$prefix::1")" -F -p $port "$@" 10.0.1.2 || status=$?
    [ $status = 0 ] || kill $server 2>/dev/null
    wait $server
    return $status
}

# unanswered: nobody answers ARP. A connection ends with an error, and works when somebody does.
unanswered() {
    local status=0
    # Node 2 does not ask either, by which node 1 would learn of it.
    on 2 ip neigh replace 10.0.1.1 lladdr "$(on 1 cat /sys/class/net/v1/address)" dev v2 nud permanent &&
        on 2 sysctl -q net.ipv4.conf.v2.arp_ignore=8 && on 1 ip neigh flush dev v1 || return
    verify_pair 60 -r 2 -T 10 || status=$?
    on 2 sysctl -q net.ipv4.conf.v2.arp_ignore=0
    on 1 ip neigh show dev v1
    [ $status != 0 ] && wait_until 20 on 1 ping -q -c 1 -W 2 10.0.1.2 && verify_pair 60 -r 4
}
# a router that answers with ICMP for a while.
refuses() {
    local before status=0 i
    traffic -n 16 -l 60000 || return
    for i in 1 2 3; do
        on 0 ip route replace "$1" 10.0.1.2/32
        sleep 0.3
        on 0 ip route replace 10.0.1.2/32 dev b2 || status=1
        before=$(packets_sent)
        flowing "$before" || status=1
    done
    cat /tmp/traffic1 /tmp/traffic2
    traffic_stop && return $status
}
gone() { two_nodes_gone && three_in_a_row && router_between && ends && ends_meet; }

# Cards (netdevsim): they are not removed with a namespace, but go back to the initial one.
cards() {
    local i fds
    two_nodes_gone && modprobe netdevsim || return
    for i in 1 2; do
        ip netns add n$i && echo "$i 1" >/sys/bus/netdevsim/new_device || return
        wait_until 10 test -e /sys/bus/netdevsim/devices/netdevsim$i/net || return
        # udev may rename it meanwhile.
        wait_until 10 eval "ip link set \$(ls /sys/bus/netdevsim/devices/netdevsim$i/net | head -n 1) name c$i"
        ip link set c$i netns n$i && on $i ip link set lo up || return
    done
    exec 7</run/netns/n1 8</run/netns/n2
    echo "7:$(on 1 cat /sys/class/net/c1/ifindex) 8:$(on 2 cat /sys/class/net/c2/ifindex)" >/sys/bus/netdevsim/link_device || fds=1
    exec 7<&- 8<&-
    [ -z "$fds" ] || return 1
    for i in 1 2; do
        on $i ip link set c$i up && rxe_on $i c$i || return
    done
    reaches 1 10.0.1.2 && reaches 1 fd01::2
}
# ends_under V: the namespace of the sender's card ends, while the sender, which is in another one,
# keeps its queue pairs and their routes. In the shared mode of rdma it may use the device.
ends_under() {
    local own far status=0 sender receiver
    case $1 in v4) own=10.0.1.1 far=10.0.1.2 ;; v6) own=fd01::1 far=fd01::2 ;; esac
    rm -f /tmp/cards.sock
    xfer -d rxe2 -g "$(gid 2 $far)" -c /tmp/cards.sock -s -r 1000000 -T 14 >/tmp/receiver 2>&1 &
    receiver=$!
    wait_until 30 test -S /tmp/cards.sock
    xfer -d rxe1 -g "$(gid 1 $own)" -c /tmp/cards.sock -r 1000000 -T 14 >/tmp/sender 2>&1 &
    sender=$!
    flowing 0 || { cat /tmp/sender /tmp/receiver; status=1; }
    ip netns del n1
    # The card is back when the namespace has ended.
    wait_until 30 test -e /sys/class/net/c1 || status=1
    kill -9 $sender $receiver 2>/dev/null
    wait $sender $receiver 2>/dev/null
    wait_until 30 not test -e /sys/class/infiniband/rxe1 || status=1
    echo 1 >/sys/bus/netdevsim/del_device
    two_nodes_gone || status=1
    echo 2 >/sys/bus/netdevsim/del_device
    return $status
}

check "two nodes" two_nodes 4200
check "a tentative address" early
check "a duplicate address" duplicate
check "data after that" verify_sizes
check "a neighbour that does not answer" unanswered
check "a router between the nodes" gone
check "it says that the host is unreachable" refuses unreachable
check "it says that this is prohibited" refuses prohibit
check "it says nothing" refuses blackhole
if has_config CONFIG_NETDEVSIM; then
    for v in v4 v6; do
        check "cards" cards
        check "the namespace of a card ends under traffic, $v" ends_under $v
    done
else
    skip "cards" "this kernel has no $without"
fi
two_nodes_gone
finish
