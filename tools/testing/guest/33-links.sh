# SPDX-License-Identifier: GPL-2.0
# limit: 900
# Interfaces as containers and operators have them (macvlan, ipvlan, VRF, policy routing, IPsec), and
# what happens to an interface under traffic: it flaps, its MTU, its MAC address, its peer's entry in
# the table of neighbours and its own address change.
. ./ktap.sh
. ./rdma.sh

# node I: addresses and soft-RoCE for its device mI.
node() {
    on "$1" ip link set lo up && on "$1" ip link set "m$1" up && rxe_on "$1" "m$1"
}
# nodes_on TYPE...: nodes whose devices are TYPE, each above the end of a veth.
nodes_on() {
    local i
    two_nodes_gone || return
    ip netns add n1 && ip netns add n2 && ip link add v1 netns n1 mtu 4200 type veth peer name v2 netns n2 mtu 4200 || return
    for i in 1 2; do
        on $i ip link set v$i up && on $i ip link add link v$i name m$i type "$@" && node $i || return
    done
    reaches 1 10.0.1.2 && reaches 1 fd01::2
}
# siblings: both nodes are macvlans of one interface of this namespace, as containers are.
siblings() {
    local i
    two_nodes_gone || return
    ip link del p1 2>/dev/null
    ip netns add n1 && ip netns add n2 && ip link add p1 mtu 4200 type veth peer name p2 mtu 4200 || return
    ip link set p1 up && ip link set p2 up || return
    for i in 1 2; do
        ip link add link p1 name m$i type macvlan mode bridge && ip link set m$i netns n$i && node $i || return
    done
    reaches 1 10.0.1.2 && reaches 1 fd01::2
}
in_vrf() {
    local i
    two_nodes 4200 || return
    for i in 1 2; do
        on $i sysctl -q net.ipv4.udp_l3mdev_accept=1 net.ipv4.tcp_l3mdev_accept=1 net.ipv4.raw_l3mdev_accept=1
        on $i ip link add blue type vrf table 10 && on $i ip link set blue up && on $i ip link set v$i master blue || return
        # Addresses of IPv6 go with the change of the master.
        on $i ip addr replace fd01::$i/64 dev v$i nodad || return
    done
    wait_until 20 on 1 ping -q -c 1 -W 2 -I blue 10.0.1.2
}
by_policy() { # the main table would send it nowhere
    two_nodes 4200 || return
    local i
    for i in 1 2; do
        on $i ip route add 10.0.1.$((3 - i))/32 dev v$i table 100 && on $i ip rule add from 10.0.1.$i to 10.0.1.$((3 - i)) table 100 &&
            on $i ip route add unreachable 10.0.1.$((3 - i))/32 || return
    done
}
ipsec() { # transport mode for the port of RoCE
    local i o from to
    two_nodes 4200 || return
    for i in 1 2; do
        for o in 1 2; do
            from=10.0.1.$o to=10.0.1.$((3 - o))
            on $i ip xfrm state add src $from dst $to proto esp spi 0x10$o mode transport reqid 7 \
                enc 'cbc(aes)' 0x000102030405060708090a0b0c0d0e0f auth 'hmac(sha256)' 0x00010203040506070809 || return
        done
        on $i ip xfrm policy add dir out src 10.0.1.$i dst 10.0.1.$((3 - i)) proto udp dport 4791 tmpl proto esp mode transport reqid 7 &&
            on $i ip xfrm policy add dir in src 10.0.1.$((3 - i)) dst 10.0.1.$i proto udp dport 4791 tmpl proto esp mode transport reqid 7 || return
    done
}
encrypted() { # data arrive, and none of it in the clear
    local clear esp
    capture 2 v2 /tmp/esp -Q in -- verify_sizes || return
    clear=$(tcpdump -n -r /tmp/esp udp dst port 4791 2>/dev/null | wc -l)
    esp=$(tcpdump -n -r /tmp/esp esp 2>/dev/null | wc -l)
    echo "in the clear: $clear, ESP: $esp"
    [ "$clear" = 0 ] && [ "$esp" -gt 100 ]
}

# under CHANGE...: data flow, and the change is made again and again; they flow after each, and are
# not wrong. What is sent in vain meanwhile is sent again.
under() {
    local status=0 i before
    traffic -n 16 -l 60000 || return
    for i in 1 2 3 4; do
        "$@" $i || { status=1; break; }
        before=$(packets_sent)
        flowing "$before" || { status=1; break; }
    done
    cat /tmp/traffic1 /tmp/traffic2
    traffic_stop && return $status
}
flap() { on 2 ip link set v2 down && sleep 0.2 && on 2 ip link set v2 up && on 2 ip addr replace fd01::2/64 dev v2 nodad; }
mtu() {
    local mtu i
    for mtu in 9000 1500 4200; do
        for i in 1 2; do on $i ip link set v$i mtu $mtu || return; done
        sleep 0.1
    done
}
mac() { on 2 ip link set v2 address 02:00:00:00:01:0"$1" && on 2 ping -q -c 1 -W 2 10.0.1.1; }
neighbour() {
    on 1 ip neigh replace 10.0.1.2 lladdr 02:00:00:00:99:99 dev v1 && sleep 0.3 && on 1 ip neigh del 10.0.1.2 dev v1
}
address() { on 1 ip addr del 10.0.1.1/24 dev v1 && sleep 0.2 && on 1 ip addr add 10.0.1.1/24 dev v1; }
policy() { # a rule comes and goes, which changes nothing
    on 1 ip rule add pref 100 to 10.0.1.2 lookup main && sleep 0.1 && on 1 ip rule del pref 100
}

# several_queues: node 1's interface has two queues, one for each CPU, of which the first is slower.
several_queues() {
    local i
    two_nodes_gone || return
    ip netns add n1 && ip netns add n2 || return
    ip link add v1 netns n1 mtu 4200 numtxqueues 2 numrxqueues 2 type veth peer name v2 netns n2 mtu 4200 numtxqueues 2 numrxqueues 2 || return
    for i in 1 2; do on $i ip link set lo up && on $i ip link set v$i up || return; done
    on 1 tc qdisc replace dev v1 root handle 1: mq && on 1 tc qdisc replace dev v1 parent 1:1 netem limit 5000 delay 30ms || return
    on 1 bash -c 'mount -t sysfs sysfs /sys && echo 1 >/sys/class/net/v1/queues/tx-0/xps_cpus && echo 2 >/sys/class/net/v1/queues/tx-1/xps_cpus' || return
    ends && ends_meet
}
# Verified data, while their sender moves from CPU to CPU: none of it is early.
sender_moves() {
    local before after cpu=0 client status=0
    before=$(on 2 cat /sys/class/infiniband/rxe2/ports/1/hw_counters/out_of_seq_request)
    traffic -n 16 -l 3000 || return
    client=$(pgrep -f 'xfer -d rxe1' | tail -n 1)
    for _ in $(seq 20); do
        cpu=$((1 - cpu))
        taskset -a -cp $cpu "$client" || status=1
        sleep 0.2
    done
    traffic_stop || status=1
    after=$(on 2 cat /sys/class/infiniband/rxe2/ports/1/hw_counters/out_of_seq_request)
    on 1 tc -s qdisc show dev v1
    echo "out of sequence: $((after - before))"
    [ $status = 0 ] && [ "$after" = "$before" ]
}

data() { verify_sizes && pair 60 v6 ib_send_bw -m 1024 -s 65536 -n 10 -e; }

kind() { # NAME SYMBOL -- SETUP...
    local name=$1 symbol=$2
    shift 3
    if ! has_config "$symbol"; then skip "$name" "this kernel has no $without"; return; fi
    check "$name" "$@"
    check "$name: data" data
}

kind "macvlan" CONFIG_MACVLAN -- nodes_on macvlan mode bridge
kind "macvlans of one interface" CONFIG_MACVLAN -- siblings
two_nodes_gone
ip link del p1 2>/dev/null
kind "ipvlan, L2" CONFIG_IPVLAN -- nodes_on ipvlan mode l2
if has_config CONFIG_NET_VRF; then
    check "VRF" in_vrf
    check "VRF: data" verify_sizes
else
    skip "VRF" "this kernel has no $without"
fi
if has_config CONFIG_IP_MULTIPLE_TABLES; then
    check "policy routing" by_policy
    check "policy routing: data" verify_sizes
else
    skip "policy routing" "this kernel has no $without"
fi
if has_config CONFIG_XFRM_USER CONFIG_INET_ESP; then
    check "IPsec" ipsec
    check "IPsec: data" encrypted
else
    skip "IPsec" "this kernel has no $without"
fi

if has_config CONFIG_XPS CONFIG_NET_SCH_NETEM && [ "$(nproc)" -ge 2 ]; then
    check "two queues that are selected by CPU" several_queues
    check "packets stay in order when their sender moves" sender_moves
else
    skip "two queues that are selected by CPU" "one CPU, or no ${without:-CONFIG_XPS}"
fi

check "two nodes" two_nodes 4200
check "the interface flaps" under flap
check "its MTU changes" under mtu
check "the peer's MAC address changes" under mac
check "the peer's entry is wrong, then gone" under neighbour
check "the own address goes and comes" under address
check "rules of routing come and go" under policy
two_nodes_gone
finish
