# SPDX-License-Identifier: GPL-2.0
# limit: 60
# Devices come and go, and the stock tools see them as they should.
. ./ktap.sh
. ./rdma.sh

port_is_up() { on 1 ibv_devinfo -d rxe1 | grep -q 'state:.*PORT_ACTIVE'; }
named_wrongly() { refused_as 'No such device|Invalid|not found|Wrong' on 1 rdma link add rxe9 type rxe netdev nosuch; }
twice() { refused_as 'File exists|already' on 1 rdma link add rxe1b type rxe netdev v1; }
listed() { on "$1" rdma link show | grep "link rxe$1/1 state ACTIVE physical_state LINK_UP netdev v$1"; }
all_gids() { gid 1 10.0.1.1 && gid 1 fd01::1; }
verbose() {
    on 1 ibv_devinfo -v -d rxe1 >/tmp/v || return
    cat /tmp/v
    grep -q 'transport:.*InfiniBand' /tmp/v && grep -q 'link_layer:.*Ethernet' /tmp/v &&
        grep -q 'RoCE v2' /tmp/v && grep -qE 'max_qp:[[:space:]]+[1-9]' /tmp/v && grep -qE 'max_mr_size:[[:space:]]+0x' /tmp/v
}
mtu_follows() { # NETDEV-MTU ACTIVE-MTU
    on 1 ip link set v1 mtu "$1" && on 2 ip link set v2 mtu "$1" || return
    on 1 ibv_devinfo -d rxe1 | tee /dev/stderr | grep -q "active_mtu:.*$2 "
}
stats() { on 1 rdma -p statistic show link rxe1/1 | grep -q rcvd_pkts; }
resources() { on 1 rdma res show rxe1 | grep -q 'qp 1'; }
removed() { on 1 rdma link del rxe1 && refused_as "No IB device|not found|wasn't found" on 1 ibv_devinfo -d rxe1; }

check "two namespaces, veth and a device in each" two_nodes
check "rdma link show, node 1" listed 1
check "rdma link show, node 2" listed 2
check "ibv_devices" bash -c 'ip netns exec n1 ibv_devices | grep rxe1'
check "ibv_devinfo: port active" port_is_up
check "ibv_devinfo -v: attributes" verbose
check "gid table has both addresses" all_gids
check "sysfs names the netdev" test "$(on 1 cat /sys/class/infiniband/rxe1/parent)" = v1
check "path MTU follows the netdev: 4200 gives 4096" mtu_follows 4200 4096
check "path MTU follows the netdev: 1500 gives 1024" mtu_follows 1500 1024
check "rdma statistic" stats
check_with ib_umad "rdma res: the GSI queue pair" resources
check "link add over a missing netdev" named_wrongly
check "a second device on one netdev" twice
check "rdma link del" removed
finish
