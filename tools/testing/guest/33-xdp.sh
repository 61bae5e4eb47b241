# SPDX-License-Identifier: GPL-2.0
# limit: 700
# BPF programs at an interface of the receiver (generic XDP, on a veth and on a bridge) and of the
# sender (tc) see every packet, each as one datagram, and what they let pass arrives.
. ./ktap.sh
. ./rdma.sh

needs CONFIG_BPF_SYSCALL CONFIG_NET_XGRESS -- "programs at an interface"

many() { pair 60 "$1" ib_write_bw -m 1024 -s 65536 -n 5 "${@:2}"; }
# lost V: traffic that does not arrive; the programs give up soon.
lost() { local patience=10; many "$1" >/dev/null 2>&1 || :; }

# program NODE DEVICE WHAT FAMILY OUT -- TRAFFIC...: every packet that is sent meets the program.
program() {
    local node=$1 device=$2 sent
    shift 2
    observed attached ip netns exec "n$node" python3 xdp.py "$device" "$@" &&
        [ "$sent" -gt 50 ] && grep -qx "$sent whole, short 0" /tmp/observer
}

# elsewhere: packets that a program of node 2 sends elsewhere are captured there.
elsewhere() { # NODE DEVICE DIRECTION TRAFFIC...
    local before sent got
    before=$(packets_sent)
    capture "$1" "$2" /tmp/elsewhere -Q "$3" -s 96 -B 16384 udp dst port 4791 -- "${@:4}" || return
    sent=$(($(packets_sent) - before))
    got=$(tcpdump -n -r /tmp/elsewhere 2>/dev/null | wc -l)
    echo "$sent packets sent, $got captured"
    [ "$sent" -gt 50 ] && [ "$got" = "$sent" ]
}

bridged() { # node 2's device is a bridge with v2 as its port
    two_nodes 4200 || return
    on 2 rdma link del rxe2
    on 2 ip addr flush dev v2
    on 2 ip link add br0 type bridge && on 2 ip link set v2 master br0 && on 2 ip link set br0 mtu 4200 up || return
    rxe_on 2 br0 && reaches 1 10.0.1.2 && reaches 1 fd01::2
}

check "two nodes" two_nodes 4200
for v in v4 v6; do
    check "XDP passes, $v" program 2 v2 pass $v -- many $v
    check "XDP drops, $v" program 2 v2 drop $v -- lost $v
    check "XDP sends back, $v" program 2 v2 tx $v -- elsewhere 1 v1 in lost $v
done
on 2 ip link add d2 type veth peer name e2 && on 2 ip link set d2 mtu 4200 up && on 2 ip link set e2 mtu 4200 up
for v in v4 v6; do
    check "XDP redirects, $v" program 2 v2 redirect $v d2 -- elsewhere 2 e2 in lost $v
done
check "XDP passes verified data" program 2 v2 pass v4 -- verify_sizes
check "tc-bpf writes into packets" program 1 v1 ttl v6 -- many v6
check "MTU 1500" eval 'on 1 ip link set v1 mtu 1500 && on 2 ip link set v2 mtu 1500'
check "native XDP passes" program 2 v2 native v4 -- many v4
check "data after that" verify_sizes
check "a bridge as a node" bridged
check "XDP at the bridge passes" program 2 br0 pass v4 -- verify_sizes
check "XDP at the bridge drops" program 2 br0 drop v4 -- lost v4
if on 1 ethtool -K v1 tx-gso-list off >/dev/null && on 2 ethtool -K v2 gro on rx-gro-list on >/dev/null; then
    check "XDP at a bridge above a device that collects packets" program 2 br0 pass v4 -- verify_sizes
    on 1 ethtool -K v1 tx-gso-list on >/dev/null
    on 2 ethtool -K v2 gro off rx-gro-list off >/dev/null
fi
check "XDP at its port passes" program 2 v2 pass v6 -- many v6
two_nodes_gone
finish
